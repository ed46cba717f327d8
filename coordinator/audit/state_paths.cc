// SPDX-License-Identifier: Apache-2.0
#include "coordinator/audit/state_paths.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace atl::audit {
namespace {

// The number in "<prefix><digits><suffix>", with at least `width` digits and no more than needed.
std::optional<uint64_t> NumberIn(const std::string& name, const std::string& prefix, size_t width,
                                 const std::string& suffix) {
  if (name.size() < prefix.size() + width + suffix.size() || !name.starts_with(prefix) || !name.ends_with(suffix))
    return std::nullopt;
  const std::string digits = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
  if (digits.size() > 19 || digits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  if (digits.size() > width && digits[0] == '0') return std::nullopt;
  return std::stoull(digits);
}

bool HalfWritten(const std::string& name) { return name.ends_with(".tmp") || name.ends_with(".upd.new"); }

class Lister {
 public:
  Lister(const Files& files, Report& report) : files_(files), report_(report) {}

  absl::Status Blobs(const std::string& directory, StateFiles& out) {
    ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> groups, files_.List(directory));
    for (const std::string& group : groups) {
      const std::string below = JoinPath(directory, group);
      ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.List(below));
      for (const std::string& name : names) {
        Sha256 content;
        if (Sha256::FromHex(name, content) && content.Hex() == name && name.starts_with(group)) {
          out.blobs[content] = JoinPath(below, name);
        } else {
          Strange(below, name, "", name.ends_with(".part"));
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status Job(const DataDirectory& directory, const std::string& job, JobFiles& out) {
    ATOLL_RETURN_IF_ERROR(Versions(directory.RoundsDirectory({job}), job, ".seg", out.segments));
    ATOLL_RETURN_IF_ERROR(Versions(directory.SnapshotsDirectory({job}), job, ".snap", out.snapshots));
    ATOLL_RETURN_IF_ERROR(Versions(directory.KeptUpdatesDirectory({job}), job, ".upd", out.updates));
    return Checkpoints(directory.CheckpointsDirectory({job}), job, out);
  }

 private:
  void Strange(const std::string& directory, const std::string& name, const std::string& job, bool half_written) {
    report_.Note({JoinPath(directory, name), std::nullopt, job,
                  half_written ? "a file that was not written to its end" : "a name that the format does not have",
                  half_written ? "nothing reads it" : "nothing reads it; look whether it belongs here"});
  }

  // e<epoch>/f<fragment>/v<version><suffix>
  absl::Status Versions(const std::string& directory, const std::string& job, const std::string& suffix,
                        std::map<FileKey, std::string>& out) {
    ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> epochs, files_.List(directory));
    for (const std::string& epoch_name : epochs) {
      const std::optional<uint64_t> epoch = NumberIn(epoch_name, "e", 10, "");
      const std::string in_epoch = JoinPath(directory, epoch_name);
      if (!epoch) Strange(directory, epoch_name, job, false);
      if (!epoch) continue;
      ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> fragments, files_.List(in_epoch));
      for (const std::string& fragment_name : fragments) {
        const std::optional<uint64_t> fragment = NumberIn(fragment_name, "f", 5, "");
        if (!fragment) Strange(in_epoch, fragment_name, job, false);
        if (!fragment) continue;
        FileKey key{*epoch, static_cast<uint32_t>(*fragment), 0};
        ATOLL_RETURN_IF_ERROR(OfFragment(JoinPath(in_epoch, fragment_name), job, suffix, key, out));
      }
    }
    return absl::OkStatus();
  }

  absl::Status OfFragment(const std::string& directory, const std::string& job, const std::string& suffix, FileKey key,
                          std::map<FileKey, std::string>& out) {
    ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.List(directory));
    for (const std::string& name : names) {
      const std::optional<uint64_t> version = NumberIn(name, "v", 10, suffix);
      if (!version) {
        Strange(directory, name, job, HalfWritten(name));
        continue;
      }
      key.version = *version;
      out[key] = JoinPath(directory, name);
    }
    return absl::OkStatus();
  }

  absl::Status Checkpoints(const std::string& directory, const std::string& job, JobFiles& out) {
    ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> steps, files_.List(directory));
    for (const std::string& step_name : steps) {
      const std::optional<uint64_t> step = NumberIn(step_name, "", 10, "");
      if (!step) Strange(directory, step_name, job, false);
      if (!step) continue;
      CheckpointFiles& checkpoint = out.checkpoints[*step];
      checkpoint.directory = JoinPath(directory, step_name);
      ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.List(checkpoint.directory));
      for (const std::string& name : names) {
        const std::optional<uint64_t> fragment = NumberIn(name, "f", 5, ".snap");
        if (name == "manifest") {
          checkpoint.manifest = true;
        } else if (fragment) {
          checkpoint.fragments[static_cast<uint32_t>(*fragment)] = JoinPath(checkpoint.directory, name);
        } else {
          Strange(checkpoint.directory, name, job, HalfWritten(name));
        }
      }
    }
    return absl::OkStatus();
  }

  const Files& files_;
  Report& report_;
};

}  // namespace

absl::StatusOr<StateFiles> ListState(const Files& files, const std::string& root, Report& report) {
  StateFiles out;
  Lister lister(files, report);
  ATOLL_RETURN_IF_ERROR(lister.Blobs(JoinPath(root, "blobs"), out));
  ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> jobs, files.List(JoinPath(root, "jobs")));
  for (const std::string& job : jobs) {
    JobFiles found;
    ATOLL_RETURN_IF_ERROR(lister.Job(DataDirectory(root), job, found));
    if (!found.empty()) out.jobs.emplace(job, std::move(found));
  }
  return out;
}

absl::Status CheckIsFinished(const Files& files, const std::string& root) {
  const std::string mark = JoinPath(root, kUnfinishedName);
  if (!files.Exists(mark)) return absl::OkStatus();
  constexpr uint64_t kLongest = 1 << 16;  // names two paths
  const absl::StatusOr<std::string> text = ReadWholeFile(files, mark, kLongest);
  const bool restore = text.ok() && absl::StartsWith(*text, kUnfinishedRestore);
  return absl::FailedPreconditionError(absl::StrCat(root, " is a ", restore ? "restored state" : "backup",
                                                    " that was not finished; let 'atoll-coordinator ",
                                                    restore ? "restore" : "backup", "' go on with it, or remove it"));
}

}  // namespace atl::audit
