// SPDX-License-Identifier: Apache-2.0
#include "common/base/output_buffer.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace atl {
namespace {

int Poll(int descriptor, int limit_ms) {
  pollfd wanted{descriptor, POLLOUT, 0};
  return ::poll(&wanted, 1, limit_ms);
}

}  // namespace

OutputBuffer::OutputBuffer(int descriptor) : descriptor_(descriptor) {
  setp(buffer_.data(), buffer_.data() + buffer_.size());
}

bool OutputBuffer::stalled() const { return writing_ && Poll(descriptor_, 0) == 0; }

OutputBuffer::int_type OutputBuffer::overflow(int_type c) {
  if (sync() != 0) return traits_type::eof();
  if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
  return traits_type::not_eof(c);
}

int OutputBuffer::sync() {
  for (const char* at = pbase(); at < pptr();) {
    writing_ = true;
    const ssize_t written = ::write(descriptor_, at, static_cast<size_t>(pptr() - at));
    const int error = errno;
    if (written < 0 && error == EAGAIN) (void)Poll(descriptor_, -1);  // another process has made it non-blocking
    writing_ = false;
    if (written < 0 && (error == EINTR || error == EAGAIN)) continue;
    if (written < 0 && error == EPIPE && descriptor_ == STDOUT_FILENO) {
      std::signal(SIGPIPE, SIG_DFL);
      std::raise(SIGPIPE);
    }
    if (written <= 0) return -1;
    at += written;
  }
  setp(buffer_.data(), buffer_.data() + buffer_.size());
  return 0;
}

int FinishOutput(std::ostream& out, std::ostream& talk, const char* program, int code, int code_if_lost) {
  out.flush();
  if (out) return code;
  talk << program << ": the results could not be written to standard output\n";
  return code == 0 ? code_if_lost : code;
}

}  // namespace atl
