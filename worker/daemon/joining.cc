// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/joining.h"

#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "common/plan/limits.h"
#include "common/rpc/enroll_client.h"
#include "common/trust/certificate.h"
#include "common/trust/secret_files.h"

namespace atl {

constexpr size_t kDigits = 8;  // 32 bits of a random key

absl::Status NameByIdentity(WorkerOptions& options) {
  if (!options.name.empty()) return absl::OkStatus();
  const absl::StatusOr<IdentityFile> held = ReadIdentityFile(options.identity);
  if (held.ok()) {
    ATOLL_ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificate(held->certificate_pem));
    options.name = facts.identity.name;
    return absl::OkStatus();
  }
  if (!absl::IsNotFound(held.status())) return held.status();
  ATOLL_RETURN_IF_ERROR(Annotate(MakePosixFiles()->MakeDirectory(options.cache_dir), "--cache-dir"));
  const absl::StatusOr<Sha256> key = KeyToEnrol(options.identity);
  if (!key.ok()) return Annotate(key.status(), absl::StrCat("--identity ", options.identity));
  options.name =
      absl::StrCat(options.name_stem.substr(0, limits::kNameBytes - kDigits - 1), "-", key->Hex().substr(0, kDigits));
  return absl::OkStatus();
}

absl::Status TwoWorkers(const WorkerOptions& options) {
  return absl::FailedPreconditionError(
      absl::StrCat("another worker runs with --cache-dir ", options.cache_dir,
                   " and so with the same identity: give each worker of this machine its own --cache-dir"));
}

}  // namespace atl
