// SPDX-License-Identifier: Apache-2.0
// Text from users and programs: job files, quantities, names, join tokens, certificates, HTTP
// requests, documents and tokenizer models.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <system_error>

#include "cli/job/job_file.h"
#include "common/base/check.h"
#include "common/base/utf8.h"
#include "common/config/quantities.h"
#include "common/telemetry/http_server.h"
#include "common/text/document_reader.h"
#include "common/text/huggingface_tokenizer.h"
#include "common/text/sentencepiece_model.h"
#include "common/text/tokenizer.h"
#include "common/trust/certificate.h"
#include "common/trust/join_token.h"
#include "common/wire/resource_names.h"
#include "tests/fuzz/memory_content.h"
#include "tests/fuzz/targets.h"

namespace atl::fuzz {
namespace {

void JobFileText(const std::string& input) {
  std::vector<cli::Fault> faults;
  const cli::JobFile file = cli::ParseJobFile("job.yaml", input, {}, faults);
  if (!faults.empty()) return;
  (void)cli::CheckJobFile(file);
  const std::string written = cli::JobFileYaml(file.name, file.labels, file.spec);
  const cli::JobFile back = cli::ParseJobFile("job.yaml", written, {}, faults);
  ATOLL_CHECK(faults.empty(), "what get prints submit takes");
  ATOLL_CHECK(back.spec.SerializeAsString() == file.spec.SerializeAsString() && back.name == file.name,
              "and it means the same");
}

void Override(const std::string& input) {
  std::vector<cli::Fault> faults;
  (void)cli::ParseUpdate({input}, faults);
}

void Quantity(const std::string& input) {
  (void)ParseDuration(input);
  (void)ParseBytes(input);
  (void)ParseRate(input);
  const auto number = ParseUnsigned(input, 1000);
  ATOLL_CHECK(!number.ok() || *number <= 1000, "a bound holds");
  (void)ParseReal(input);
  (void)ParseBool(input);
}

// An accepted name is written back unchanged.
void Name(const std::string& input) {
  if (const auto job = ParseJobName(input); job.ok()) ATOLL_CHECK(JobName(*job) == input, "one name, one text");
  if (const auto worker = ParseWorkerName(input); worker.ok()) {
    ATOLL_CHECK(WorkerName(*worker) == input, "one name, one text");
  }
  (void)ParseCheckpointName(input);
  if (const auto identity = ParseIdentityUri(input); identity.ok()) {
    ATOLL_CHECK(IdentityUri(*identity) == input, "one identity, one text");
  }
  (void)IdentityOfPeer(input);
}

void Token(const std::string& input) {
  const auto token = ParseJoinToken(input);
  if (!token.ok()) return;
  const auto back = ParseJoinToken(PrintJoinToken(*token));
  ATOLL_CHECK(back.ok() && *back == *token, "a token comes back the same");
}

void Certificate(const std::string& input) {
  (void)ReadCertificate(input);
  (void)CheckSigningRequest(input);
  (void)PrivateKey::FromPem(input);
}

// The first byte selects the file extension, the text splitting, the field to read, and whether bad
// documents are skipped.
void Documents(const std::string& input) {
  constexpr std::array kNames = {"d.txt", "d.jsonl", "d.txt.zst", "d.jsonl.gz"};
  constexpr size_t kDocuments = 200;
  if (input.empty()) return;
  MemoryFiles files;
  const auto first = static_cast<unsigned char>(input[0]);
  const std::string name = kNames[first % kNames.size()];
  Put(files, name, input.substr(1));
  DocumentOptions options;
  options.text_split = static_cast<TextSplit>(first / kNames.size() % 4);
  if ((first & 0x10) != 0) options.json_field = "meta.text";
  if ((first & 0x20) != 0)
    options.on_bad = [](const absl::Status& why) { ATOLL_CHECK(!why.ok(), "there is a reason"); };
  const auto reader = OpenDocuments(files, name, options);
  if (!reader.ok()) return;
  std::string text;
  for (size_t i = 0; i < kDocuments; ++i) {
    const absl::StatusOr<bool> next = (*reader)->Next(text);
    if (!next.ok() || !*next) return;
    ATOLL_CHECK(!text.empty() && FirstInvalidUtf8(text) == text.size(), "a document is text");
  }
}

// Changes the source address every thousand connections: an address has 28,000 ports, and each is
// unusable for a minute after use.
Descriptor ConnectLoopback(int port) {
  static uint32_t connections = 0;
  Descriptor connection(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in from{}, to{};
  from.sin_family = AF_INET;
  from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + connections++ / 1000 % 60'000);
  ATOLL_CHECK(::bind(connection.get(), reinterpret_cast<sockaddr*>(&from), sizeof(from)) == 0, "an address is free");
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int error = ::connect(connection.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0 ? 0 : errno;
  while (error == EINTR) {  // libFuzzer's timer, every 11 s; the connect continues
    pollfd made{connection.get(), POLLOUT, 0};
    if (::poll(&made, 1, -1) != 1) continue;
    socklen_t size = sizeof(error);
    ATOLL_CHECK(::getsockopt(connection.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0, "a socket has its error");
  }
  ATOLL_CHECK(error == 0, ("a server listens: " + std::generic_category().message(error)).c_str());
  return connection;
}

// After any input the server still answers the next request.
void Http(const std::string& input) {
  static const std::unique_ptr<HttpServer> server = [] {
    auto started =
        HttpServer::Start({}, {{"/healthz", [](const HttpRequest&) { return HttpResponse{.body = "ok\n"}; }},
                               {"/jobs/", [](const HttpRequest& r) { return HttpResponse{.body = r.path}; }}});
    ATOLL_CHECK(started.ok(), "a server starts");
    return *std::move(started);
  }();
  const auto ask = [](const std::string& request) {
    const Descriptor connection = ConnectLoopback(server->port());
    (void)!::send(connection.get(), request.data(), request.size(), MSG_NOSIGNAL);
    (void)::shutdown(connection.get(), SHUT_WR);
    std::string answer;
    std::array<char, 4096> part{};
    for (;;) {
      const ssize_t read = ::recv(connection.get(), part.data(), part.size(), 0);
      if (read < 0 && errno == EINTR) continue;
      if (read <= 0) return answer;
      answer.append(part.data(), static_cast<size_t>(read));
    }
  };
  const std::string answer = ask(input);
  ATOLL_CHECK(answer.empty() || answer.rfind("HTTP/1.", 0) == 0, "an answer is HTTP");
  ATOLL_CHECK(ask("GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").rfind("HTTP/1.1 200", 0) == 0,
              "the next one is answered");
}

// The project writes this file for its byte tokenizer, and reads no other.
void TokenizerJson(const std::string& input) { (void)IsHuggingFaceByteTokenizer(input); }

void SentencePiece(const std::string& input) {
  const auto tokenizer = LoadSentencePiece(input);
  if (!tokenizer.ok()) return;
  std::vector<uint32_t> ids;
  if (!(*tokenizer)->Encode("a b \xc3\xa4 \xf0\x9f\x91\xa9", ids).ok()) return;
  ATOLL_CHECK((*tokenizer)->Decode(ids).ok(), "what was encoded can be decoded");
}

std::string ModelSeed() {
  std::vector<Piece> pieces = {{"<unk>", 0, PieceType::kUnknown}, {"<s>", 0, PieceType::kControl}};
  constexpr char kDigits[] = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) {
    pieces.push_back({std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">", 0, PieceType::kByte});
  }
  for (const char* text : {"a", "b", "ab", "\xe2\x96\x81"}) pieces.push_back({text, -1, PieceType::kNormal});
  return SerializeBpeModel(pieces);
}

std::string TokenSeed() {
  JoinToken token;
  token.authority = Sha256Of({});
  token.id = "0123456789abcdef";
  return PrintJoinToken(token);
}

constexpr char kJobSeed[] = R"(apiVersion: atoll/v1
kind: TrainingJob
metadata: {name: tiny, labels: {a: b}}
spec:
  model: {layers: 2, hidden_size: 64}
  data: {corpora: [{name: tales, weight: 2}]}
  sync: {inner_steps: 30, upload_codec: mxfp4}
  stop: {inner_steps: 1000}
)";

}  // namespace

std::vector<Target> TextTargets() {
  return {
      {"job_file", JobFileText, {kJobSeed, "{\"apiVersion\": \"atoll/v1\", \"spec\": {\"workers\": {\"min\": 2}}}"}},
      {"override", Override, {"sync.inner_steps=30", "metadata.name=x", "data.corpora[0].weight=2"}},
      {"quantity", Quantity, {"10s", "5 MiB", "10Mbit/s", "1e-4", "true", "999"}},
      {"name",
       Name,
       {"jobs/tiny", "workers/a", "jobs/a/checkpoints/4", "atoll://worker/a/0123456789abcdef",
        "atoll://worker/a@ipv4:10.0.0.7:40112"}},
      {"join_token", Token, {TokenSeed()}},
      {"certificate", Certificate, {}},  // its corpus: keys are never the same twice
      {"documents",
       Documents,
       {std::string(1, '\0') + "one\n\ntwo\n", "\x01{\"text\": \"a\"}\n{\"text\": \"\\u00e4\"}\n",
        "\x31{\"meta\": {\"text\": \"\\ud83d\"}, \"a\": [NaN, 1e999]}\n{\"text\": 1}\n",
        std::string("\x03\x1f\x8b\x08\0\0\0\0\0\x02\x03\xab\x56\x2a\x49\xad\x28\x51\xb2\x52\x4a\x54\xaa\xe5\x02\0",
                    25)}},
      {"http",
       Http,
       {"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", "HEAD /jobs/a?b=c HTTP/1.0\r\n\r\n",
        "POST /x HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"}},
      {"sentencepiece", SentencePiece, {ModelSeed()}},
      {"tokenizer_json",
       TokenizerJson,
       {HuggingFaceTokenizerFiles(*MakeByteTokenizer())->at("tokenizer.json"), R"({"model": {"type": "BPE"}})"}},
  };
}

}  // namespace atl::fuzz
