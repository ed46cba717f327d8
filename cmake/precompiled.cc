// SPDX-License-Identifier: Apache-2.0
// A target needs a unit.
int main() { return 0; }
