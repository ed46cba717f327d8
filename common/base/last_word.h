// A sentence for an end that nobody announces: libraries abort without a word where they get no memory.
#ifndef ATOLL_COMMON_BASE_LAST_WORD_H_
#define ATOLL_COMMON_BASE_LAST_WORD_H_

namespace atl {

// From now on SIGABRT writes one line to standard error before it ends the process as ever: the program's name and what
// to look at. Once, at the beginning of main.
void TellOfAborts();

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_LAST_WORD_H_
