// A sentence for an end that nobody announces: libraries abort without a word where they get no memory, or go on
// without it and fault.
#ifndef ATOLL_COMMON_BASE_LAST_WORD_H_
#define ATOLL_COMMON_BASE_LAST_WORD_H_

namespace atl {

// From now on SIGABRT and SIGSEGV write one line to standard error before they end the process as ever: the program's
// name and what to look at. Once, at the beginning of main. A handler that is there is left, as a sanitizer's.
void TellOfAborts();

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_LAST_WORD_H_
