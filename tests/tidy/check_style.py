#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""check_style.py [ROOT]: the rules of style that no other tool checks. Each message names the replacement.

tests/tidy/allowed.txt lists the exceptions, one per line: RULE PATH LIMIT REASON. LIMIT is the allowed maximum there
(lines for the size rules, occurrences for the others). It may decrease, never increase.
"""

import pathlib
import re
import sys

from tree import CODE, files_below, without_comments_and_literals

ALLOWED = "tests/tidy/allowed.txt"
OWN_FOLDERS = ("common", "coordinator", "worker", "cli", "tests")
TEXT = CODE + (".py", ".sh", ".md", ".txt", ".cmake", ".proto", ".yaml", ".yml", ".json", ".service", "")
RENAMED = ("log", "event", "error", "help", "metric", "flag", "identifier", "file", "test")
FUNCTION_LINES, FILE_LINES, HEADER_LINES = 70, 500, 250
LICENCE = "SPDX-License-Identifier: Apache-2.0"

# rule: (pattern, replacement). For C++ without comments and literals.
CODE_RULES = {
    "absl-mutex": (r"\babsl::(Mutex|MutexLock|CondVar|ReaderMutexLock)\b", "use Mutex of common/base/mutex.h: the thread sanitizer cannot see absl::Mutex"),
    "std-mutex": (r"\bstd::(recursive_|shared_|timed_)?mutex\b|\bstd::(lock_guard|unique_lock|scoped_lock|condition_variable)\b",
                  "use Mutex, MutexLock and CondVar of common/base/mutex.h: they carry the lock annotations"),
    "std-format": (r"\bstd::(format|expected|source_location)\b", "use absl::StrFormat, absl::StatusOr or __FILE__: g++ 12 lacks it"),
    "bare-new": (r"(?<!operator )\bnew\b(?!\s*\()|(?<!= )(?<!operator )\bdelete\b", "own by value or with std::make_unique"),
    "throw": (r"\bthrow\b", "return an absl::Status: errors are values here"),
    "assert": (r"(?<!static_)\bassert\s*\(", "use ATOLL_CHECK(condition, why) of common/base/check.h: it stays on in release"),
    "cout": (r"\bstd::(cout|cerr|clog)\b|\bprintf\s*\(", "write to the Log, or to the stream that was passed in"),
    "thread-local": (r"\bthread_local\b", "pass the state in: there are no globals here"),
    "rand": (r"\bs?rand\s*\(|\bstd::(random_device|mt19937(_64)?|default_random_engine)\b", "use common/base/random.h: a key and a counter"),
    "system-clock": (r"\b(system_clock|steady_clock|high_resolution_clock)\b|\bgettimeofday\b|\bclock_gettime\b", "take a Clock (common/base/time.h)"),
    "fadvise": (r"\bposix_fadvise\b", "leave the page cache to the kernel: POSIX_FADV_DONTNEED waits for a kernel thread on every core"),
    "secret-compare": (r"\bCRYPTO_memcmp\b|\b(memcmp|strcmp|strncmp|std::(ranges::)?(equal|mismatch|lexicographical_compare\w*))\s*\([^;]*(secret|proof|passphrase|password)"
                       r"|(secret|passphrase|password)(\(\))?\s*[=!]=",
                       "hold both as Secret<N> of common/base/secret.h: they are compared in constant time"),
    "received-slice": (r"(\.|->)(Dump|DumpToSingleSlice|TrySingleSlice)\s*\(|\bgrpc_(slice_(un)?ref|byte_buffer_reader_\w+)\b",
                       "leave received bytes in their grpc::ByteBuffer, as ReceivedFrame of common/rpc/bulk_frames.h does and why"),
    "getenv": (r"\b(std::)?(secure_)?getenv\s*\(", "read the environment in common/config only and pass the value"),
}
TEST_RULES = {
    "sleep": (r"\bsleep_(for|until)\b|\bu?sleep\s*\(|\bnanosleep\s*\(|\babsl::SleepFor\b", "wait for an event, or move a ManualClock"),
    "disabled-test": (r"\bDISABLED_\w+", "mend the test, or delete it and say why in the commit"),
    "assert-nothing": (r"\b(EXPECT_TRUE\(true\)|ASSERT_TRUE\(true\)|SUCCEED\(\))", "assert what the test is about"),
}
MAIN_MAY = {"cout", "rand"}  # write to the process's streams, and draw values that must differ between processes
TESTS_ARE_FREE_OF = {"getenv", "std-mutex", "cout"}

# rule: (pattern, replacement). For every text file, comments included. Written so that they do not match themselves.
TEXT_RULES = {
    "todo": (r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b", "do it now, or write an issue; the tree holds no reminders"),
    "machine-path": (r"(?<![\w./$}{~-])/(wo" r"rk|ro" r"ot)/", "use a path relative to the repository, $HOME or a temporary directory"),
    "outside": (r"\.\./sha" r"red", "read ATOLL_TEST_DATA; only its default, in tests and studies, may name that folder"),
    "wording": (r"\b(white" r"list|black" r"list)\w*", "say allow list or deny list"),
    "glossary": (r"\b(pseudo" r"gradient|pseudo_" r"gradients?_avg|global[ _]we" r"ights)\b", "say pseudo-gradient or outer copy: the words of the glossary"),
    "puffery": (r"\b(bla" r"zing(ly)?|cutting[- ]ed" r"ge|seam" r"less(ly)?|lever" r"ag(e|es|ed|ing)|util" r"i[sz](e|es|ed|ing))\b",
                "say plainly what it does, with a number if it is fast (use, not its longer cousins)"),
}

# A path of a document: a page's, or one below docs/. A name with a word in capitals (docs/results/NAME.md) is not a
# file.
_DOCUMENT = re.compile(r"(?<![\w.$})/<-])/?(?:(?:\.{1,2}/)*(?:[\w-]+/)*[\w.-]+\.md\b|docs/(?:[\w-]+/)*[\w.-]*\w)")

_CONTROL = re.compile(r"^(if|for|while|switch|catch|else|do|return|namespace|struct|class|enum|union|extern|try|case|default)\b")
_SIGNATURE_END = re.compile(
    r"\)\s*(?:(?:const|noexcept|override|final|mutable|&|&&|try|ATOLL_\w+(?:\([^{}]*\))?|requires\b[^{}]*|->[^{}]*)\s*)*(?::[^{};]*)?$", re.DOTALL)


def functions(code):
    """Yields (line, name, lines) of each outermost function body in code without comments and literals."""
    starts = []  # open braces: (position, head); head is None unless it is a function's
    last = 0
    inside = 0
    for match in re.finditer(r"[{};]", code):
        char, at = match.group(0), match.start()
        if char == "{":
            head = re.sub(r"^\s*(?:public|private|protected)\s*:", "", code[last:at]).strip()
            head = re.sub(r"^\s*(#[^\n]*\n\s*)+", "", head)
            is_function = not inside and bool(_SIGNATURE_END.search(head)) and not _CONTROL.match(re.sub(r"^template\s*<[^{};]*>\s*", "", head)) and "=" not in head.split("(")[0]
            starts.append((code.count("\n", 0, at - len(code[last:at].lstrip())), head if is_function else None))
            inside += is_function
        elif char == "}" and starts:
            line, head = starts.pop()
            if head is not None:
                inside -= 1
                name = re.search(r"([\w:~]+|operator\S+)\s*\(", head)
                yield line + 1, name.group(1) if name else "?", code.count("\n", 0, at) - line + 1
        if not inside or char != ";":
            last = at + 1


def is_test(path):
    return path.startswith("tests/")


def code_problems(path, text):
    """Yields (rule, line, amount or None, sentence)."""
    code = re.sub(r"^[ \t]*#[ \t]*include[^\n]*", "", without_comments_and_literals(text), flags=re.MULTILINE)
    code = re.sub(r"(\(\s*)new\b", r"\1", code)  # owned at once: unique_ptr<T>(new T) for a private constructor
    rules = {k: v for k, v in CODE_RULES.items() if not (is_test(path) and k in TESTS_ARE_FREE_OF)}
    if is_test(path):
        rules |= TEST_RULES
    if path.endswith("/main.cc"):
        rules = {k: v for k, v in rules.items() if k not in MAIN_MAY}
    yield from matches(rules, code)
    for line, name, lines in functions(code):
        if lines > FUNCTION_LINES:
            yield "function-lines", line, lines, f"{name} has {lines} lines; split it (the limit is {FUNCTION_LINES})"


def matches(rules, text):
    for rule, (pattern, instead) in rules.items():
        for match in re.finditer(pattern, text):
            yield rule, text.count("\n", 0, match.start()) + 1, None, f"'{match.group(0).strip()}': {instead}"


def licence_problems(path, text):
    """The first line of a source, after an interpreter line."""
    mark = "// " if path.endswith(CODE + (".proto",)) else "# "
    scripted = text.startswith("#!") and "." not in pathlib.PurePath(path).name
    if not (path.endswith(CODE + (".proto", ".py", ".sh", ".cmake", "CMakeLists.txt")) or scripted):
        return
    lines = text.split("\n")
    if mark + LICENCE not in lines[text.startswith("#!"):][:1]:
        yield "licence", 1, None, f"begin with the line '{mark}{LICENCE}'"


def size_problems(path, text):
    lines = text.count("\n") - (LICENCE in text[:200])
    limit, rule = (HEADER_LINES, "header-lines") if path.endswith((".h", ".cuh")) else (FILE_LINES, "file-lines")
    if path.endswith(CODE + (".py",)) and lines > limit:
        yield rule, 1, lines, f"has {lines} lines; split it by idea (the limit is {limit})"


def document_problems(root, path, text, pages):
    """Documents named in comments, messages and pages. A link of a page is relative to the page. Other paths are
    relative to the root or to the file, or a bare name of one of `pages`, as in links that a script writes into a
    page."""
    for match in _DOCUMENT.finditer(text):
        name = match.group(0).lstrip("/")
        places = [pathlib.PurePath(path).parent]
        if path.endswith(".md") and text[:match.start()].endswith("]("):
            known = False
        else:
            places.append(pathlib.PurePath())
            known = re.sub(r"^(\.\./)+", "", name) in pages or any(root.glob(name + "-*.md"))  # docs/adr/0001
        if not known and not any((root / place / name).exists() for place in places) and not re.search(r"NAME|LABEL", name):
            yield "document", text.count("\n", 0, match.start()) + 1, None, f"there is no {name}; name a page that exists"


def problems_of(path, text):
    if path.endswith(CODE) and path.startswith(OWN_FOLDERS):
        yield from code_problems(path, text)
    if path.endswith(".py") and is_test(path):
        yield from matches({"sleep": (r"\btime\.sl" r"eep\s*\(", "wait for an event with a deadline")}, text)
    yield from licence_problems(path, text)
    yield from size_problems(path, text)
    yield from matches({k: v for k, v in TEXT_RULES.items() if not (is_test(path) and k == "outside")}, text)


def rename_problems(root):
    """docs/renames.tsv lists what a user or a trace sees: kind, old text, new text; values are " ... "."""
    path = pathlib.Path(root) / "docs/renames.tsv"
    for number, line in enumerate(path.read_text().splitlines()[1:] if path.exists() else [], 2):
        kind, *texts = line.split("\t")
        if kind not in RENAMED or len(texts) != 2 or not all(texts) or texts[0] == texts[1]:
            yield f"docs/renames.tsv:{number}: write kind, old, new, separated by tabs; kinds: {', '.join(RENAMED)}"


def read_allowed(root):
    path = pathlib.Path(root) / ALLOWED
    allowed = {}
    for number, line in enumerate(path.read_text().splitlines() if path.exists() else [], 1):
        if not line.strip() or line.startswith("#"):
            continue
        words = line.split(None, 3)
        if len(words) < 4 or not words[2].isdigit():
            sys.exit(f"{ALLOWED}:{number}: write RULE PATH LIMIT REASON")
        allowed[(words[0], words[1])] = int(words[2])
    return allowed


def check(root):
    root, found = pathlib.Path(root), {}
    files = files_below(root)
    pages = {pathlib.PurePath(f).name for f in files if f.endswith(".md")}
    for path in files:
        if pathlib.PurePath(path).suffix not in TEXT or path.startswith(("tests/data/", "docs/results/")):
            continue
        try:
            text = (root / path).read_text()
        except UnicodeDecodeError:
            continue
        documents = [] if path.startswith("tests/tidy/selftest") else document_problems(root, path, text, pages)
        for rule, line, amount, sentence in [*problems_of(path, text), *documents]:
            found.setdefault((rule, path), []).append((line, amount, sentence))
    return refuse(found, read_allowed(root)) + list(rename_problems(root))


def refuse(found, allowed):
    problems = []
    for (rule, path), hits in sorted(found.items()):
        have = max((a for _, a, _ in hits if a), default=0) or len(hits)
        if have > allowed.get((rule, path), 0):
            problems += [f"{path}:{line}: [{rule}] {sentence}" for line, _, sentence in hits]
    for (rule, path), limit in sorted(allowed.items()):
        if (rule, path) not in found:
            problems.append(f"{ALLOWED}: '{rule} {path} {limit}' is no longer needed; delete the line")
    return problems


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent.parent
    problems = check(root)
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
