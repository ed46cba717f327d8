// A target needs a unit.
int main() { return 0; }
