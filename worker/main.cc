// SPDX-License-Identifier: Apache-2.0
// atoll-worker: run (the default), join, check, pause, resume, generate, eval-loss, eval.
#include <malloc.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "common/base/advice.h"
#include "common/base/log.h"
#include "common/base/output_buffer.h"
#include "common/base/private_memory.h"
#include "common/base/process.h"
#include "common/base/queued_writer.h"
#include "common/base/service_manager.h"
#include "common/base/time.h"
#include "common/config/environment.h"
#include "common/config/options.h"
#include "common/rpc/transport_log.h"
#include "worker/daemon/check.h"
#include "worker/daemon/daemon.h"
#include "worker/daemon/exit_codes.h"
#include "worker/daemon/island_follower.h"
#include "worker/daemon/joining.h"
#include "worker/daemon/owner_pause.h"
#include "worker/device/gpu_plugin.h"
#include "worker/train/eval_task.h"
#include "worker/train/generate.h"

namespace {

// Reuses the pages of large buffers instead of mapping new ones: worth a tenth to a fifth of the
// training speed and half of the transfer speed (measured; development.md).
void TuneMalloc() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  atl::SetHeapStep(size_t{256} << 20);
  // All threads share one arena: the own arena of a thread would return memory above 64 MiB to the
  // system at once, and the system clears the pages again.
  mallopt(M_ARENA_MAX, 1);
}

std::string HostName() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, HOST_NAME_MAX) == 0 ? name : "";
}

// The path of the GPU plugin in the program's directory; only its file name if that directory is unknown.
std::string PluginPath() {
  char path[PATH_MAX] = {};
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
  if (length <= 0) return "libatoll_gpu.so";
  const std::string program(path, static_cast<size_t>(length));
  return program.substr(0, program.rfind('/') + 1) + "libatoll_gpu.so";
}

// Loads the plugin only for `run` and `check`, and only if --device allows a GPU.
atl::GpuPlugin PluginFor(const atl::WorkerCommandLine& line) {
  atl::GpuPlugin plugin;
  const std::optional<atl::WorkerOptions>& options = line.check ? line.check : line.run;
  if (options && options->device != atl::DeviceChoice::kCpu) return atl::OpenGpuPlugin(PluginPath(), atl::kGpuDriver);
  plugin.reason = "not looked for";
  return plugin;
}

int Report(const absl::Status& status) {
  if (status.ok()) return atl::kWorkerLeft;
  std::cerr << "atoll-worker: " + atl::WithAdvice(status.message()) + "\n";
  return atl::kWorkerPrecondition;
}

int Generate(const atl::GenerateCommand& c, std::ostream& out) {
  atl::GenerateOptions options;
  options.checkpoint = c.checkpoint;
  options.prompt = c.prompt;
  options.max_tokens = c.max_tokens;
  options.temperature = c.temperature;
  options.top_k = c.top_k;
  options.seed = c.seed;
  options.threads = static_cast<int32_t>(c.threads);
  return Report(atl::RunGenerate(options, out, std::cerr));
}

int EvalLoss(const atl::EvalLossCommand& c, std::ostream& out) {
  atl::EvalLossOptions options;
  options.checkpoint = c.checkpoint;
  options.manifest = c.manifest;
  options.train_split = c.train_split;
  options.sequence_length = c.sequence_length;
  options.separate_documents = c.separate_documents;
  options.max_tokens = c.max_tokens;
  options.threads = static_cast<int32_t>(c.threads);
  return Report(atl::RunEvalLoss(options, out, std::cerr));
}

int EvalTasks(const atl::EvalTaskCommand& c, std::ostream& out) {
  const atl::EvalTaskOptions options{.checkpoint = c.checkpoint,
                                     .tasks = c.tasks,
                                     .limit = c.limit,
                                     .per_example = c.per_example,
                                     .threads = static_cast<int32_t>(c.threads)};
  return Report(atl::RunEvalTasks(options, out, std::cerr));
}

// Runs `pause`, `resume`, `generate`, `eval-loss`, `eval` or `check`, or prints the text of --help
// or of an error.
int RunCommand(atl::WorkerCommandLine& line, const atl::GpuPlugin& plugin, std::ostream& out) {
  if (line.generate) return Generate(*line.generate, out);
  if (line.eval_loss) return EvalLoss(*line.eval_loss, out);
  if (line.eval_task) return EvalTasks(*line.eval_task, out);
  const atl::SystemClock clock;
  if (line.owner) return Report(atl::RunOwnerCommand(*line.owner, clock, out));
  if (line.check) {
    if (const absl::Status named = atl::NameByIdentity(*line.check); !named.ok()) return Report(named);
    atl::Log log(line.check->log);
    return atl::RunWorkerCheck(*line.check, plugin, ATOLL_VERSION, clock, log, out);
  }
  (line.exit_code == 0 ? out : std::cerr) << line.text;
  return line.exit_code;
}

int RunToItsEnd(atl::WorkerCommandLine& line, const atl::GpuPlugin& plugin) {
  atl::UnblockStopSignals();
  atl::OutputBuffer buffer(STDOUT_FILENO);
  std::ostream out(&buffer);
  const int code = RunCommand(line, plugin, out);
  return atl::FinishOutput(out, std::cerr, "atoll-worker", code, atl::kWorkerPrecondition);
}

}  // namespace

int main(int argc, char** argv) {
  atl::StartProcess();
  atl::SilenceTransportLog();
  TuneMalloc();
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const atl::Environment environment = atl::ReadEnvironment();
  atl::HideInEnvironment(atl::kIslandSecretVariable);
  atl::HideInArguments(argc, argv);
  atl::WorkerCommandLine line = atl::ParseWorkerOptions(arguments, environment, ATOLL_VERSION, HostName());
  const atl::GpuPlugin plugin = PluginFor(line);
  if ((line.check || line.run) && !environment.contains(atl::kDebuggableVariable)) atl::KeepMemoryPrivate();
  if (!line.run) return RunToItsEnd(line, plugin);
  atl::BecomeService(std::cerr);
  atl::Log log(line.run->log);
  for (const std::string& option : line.resolved) log.Debug("option", {{"is", option}});
  const atl::SystemClock clock;
  if (line.run->island.rank > 0) return atl::RunIslandFollower(*line.run, plugin, ATOLL_VERSION, clock, log);
  if (const absl::Status named = atl::NameByIdentity(*line.run); !named.ok()) return Report(named);
  const atl::RunningMark mark(line.run->cache_dir, line.run->name);
  if (line.run->join && !mark.is_alone()) return Report(atl::TwoWorkers(*line.run));
  if (!atl::WaitWhilePaused(*line.run, clock, log)) return atl::kWorkerLeft;
  const atl::ServiceManager manager(environment, getpid());
  const atl::WorkerOutcome end = atl::RunWorker(*line.run, plugin, ATOLL_VERSION, manager, clock, log);
  if (!end.paused) return end.exit_code;
  // Restarts the program in the same process, so that all its device memory is released to the owner.
  std::vector<std::string> lines = atl::LinesOf(environment), words = arguments;
  words.insert(words.begin(), argv[0]);
  (void)atl::StandardError().Flush();
  execve("/proc/self/exe", atl::PointersTo(words).data(), atl::PointersTo(lines).data());
  std::cerr << std::string("atoll-worker: cannot restart itself for a pause: ") + std::strerror(errno) + "\n";
  return atl::kWorkerPrecondition;
}
