// SPDX-License-Identifier: Apache-2.0
// A CMake target needs a source file.
int main() { return 0; }
