// SPDX-License-Identifier: Apache-2.0
// `atoll token create|list|revoke` and `atoll enroll`: access for machines and people.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "absl/strings/str_format.h"
#include "cli/command_tree.h"
#include "cli/number_options.h"
#include "cli/output.h"
#include "common/base/host_port.h"
#include "common/base/names.h"
#include "common/base/utf8.h"
#include "common/base/wall_time.h"
#include "common/config/options.h"
#include "common/config/quantities.h"
#include "common/rpc/enroll_client.h"
#include "common/trust/join_token.h"

namespace atl::cli {
namespace {

constexpr int kMaxTokenPages = 1000;  // guards against a coordinator that never ends its list

struct CreateOptions {
  std::string role = "worker", name, prefix, lifetime = "24h";
  uint32_t uses = 1;
  std::string address, bulk_address, enroll_address;
};

struct EnrollOptions {
  std::string address, token_file, name, out;
  bool protect = false;
};

// Sets default ports, and the address left out to the one that this command dials.
absl::Status CompleteAddresses(CreateOptions& options, const std::string& endpoint) {
  if (options.address.empty()) options.address = endpoint;
  ATOLL_RETURN_IF_ERROR(Annotate(CompleteEndpoint(options.address, kControlPort), "--address"));
  if (!options.bulk_address.empty())
    ATOLL_RETURN_IF_ERROR(Annotate(CompleteEndpoint(options.bulk_address, kBulkPort), "--bulk-address"));
  if (!options.enroll_address.empty())
    ATOLL_RETURN_IF_ERROR(Annotate(CompleteEndpoint(options.enroll_address, kEnrollPort), "--enroll-address"));
  return absl::OkStatus();
}

int CreateToken(Session& session, CreateOptions options) {
  const absl::StatusOr<Duration> lifetime = ParseDuration(options.lifetime);
  if (!lifetime.ok()) return FailUsage(session, absl::StrCat("--lifetime ", lifetime.status().message()));
  if (!options.name.empty() && !IsName(options.name)) {
    return FailUsage(session, absl::StrCat("--name is '", Printable(options.name.substr(0, 64)), "'; it must be ",
                                           kNameRule, ", or omitted for any name"));
  }
  const std::string names = options.prefix.empty() ? options.name : options.prefix + "*";
  if (!IsAllowedNames(names)) {
    return FailUsage(session, absl::StrCat("--name-prefix is '", Printable(options.prefix.substr(0, 64)),
                                           "'; it must be ", kNameRule, ", and at most ", kPrefixBytes, " long"));
  }
  if (const absl::Status fault = CompleteAddresses(options, session.endpoint); !fault.ok())
    return FailUsage(session, std::string(fault.message()));
  v1::CreateTokenRequest request;
  request.set_role(options.role);
  request.set_name(names);
  request.set_uses(options.uses);
  request.mutable_lifetime()->set_seconds(lifetime->ns / 1'000'000'000);
  const auto response = session.api.CreateToken(request);
  if (!response.ok()) return Fail(session, response.status());
  absl::StatusOr<JoinToken> token = ParseJoinToken(response->text());
  if (!token.ok()) return Fail(session, Annotate(token.status(), "the coordinator's answer"));
  token->coordinator = options.address;
  token->bulk = options.bulk_address;
  token->enroll = options.enroll_address;
  token->name = response->token().name();
  session.talk << "token " << response->token().id() << " for role " << response->token().role() << ", "
               << response->token().uses() << (response->token().uses() == 1 ? " use" : " uses") << ", until "
               << DateText(response->token().end_time().seconds())
               << "; it is shown only once, and anybody who has it can enrol\n";
  if (IsLoopbackHost(WithoutPort(options.address))) {
    session.talk << "it names the coordinator " << options.address
                 << ", for this machine only: for others create one with --address HOST\n";
  }
  session.out << PrintJoinToken(*token) << "\n";
  return kExitOk;
}

std::string StateOf(const v1::JoinToken& token, int64_t now_s) {
  return token.revoked()                      ? "revoked"
         : token.used() >= token.uses()       ? "used up"
         : token.end_time().seconds() < now_s ? "ended"
                                              : "good";
}

int ListTokens(Session& session) {
  v1::ListTokensRequest request;
  v1::ListTokensResponse all;
  for (int page = 0; page < kMaxTokenPages; ++page) {
    const auto response = session.api.ListTokens(request);
    if (!response.ok()) return Fail(session, response.status());
    all.mutable_tokens()->MergeFrom(response->tokens());
    request.set_page_token(response->next_page_token());
    if (request.page_token().empty()) break;
  }
  if (session.format == OutputFormat::kJsonl) {
    for (const v1::JoinToken& token : all.tokens()) session.out << ToJson(token, true);
    return kExitOk;
  }
  if (PrintMessage(session, all)) return kExitOk;
  const int64_t now_s = WallSeconds(session.clock);
  session.out << absl::StrFormat("%-16s  %-8s  %-20s  %-9s  %-23s  %s\n", "ID", "ROLE", "NAME", "LEFT", "END", "STATE");
  for (const v1::JoinToken& token : all.tokens()) {
    session.out << absl::StrFormat(
        "%-16s  %-8s  %-20s  %-9s  %-23s  %s\n", Printable(token.id()), Printable(token.role()),
        token.name().empty() ? "any" : Printable(token.name()),
        absl::StrCat(token.uses() - std::min(token.used(), token.uses()), " of ", token.uses()),
        DateText(token.end_time().seconds()), StateOf(token, now_s));
  }
  return kExitOk;
}

int RevokeToken(Session& session, const std::string& id) {
  v1::RevokeTokenRequest request;
  request.set_id(id);
  const auto response = session.api.RevokeToken(request);
  if (!response.ok()) return Fail(session, response.status());
  session.talk << "token " << Printable(response->token().id())
               << " is revoked; all calls by identities enrolled with it are refused\n";
  return kExitOk;
}

int Enroll(Session& session, EnrollOptions options) {
  const auto enrol = [&]() -> absl::StatusOr<CertificateFacts> {
    if (session.files.Exists(options.out)) {
      return absl::AlreadyExistsError(absl::StrCat(options.out, " already exists; choose another file"));
    }
    ATOLL_ASSIGN_OR_RETURN(const JoinToken token, ReadJoinTokenFile(options.token_file));
    if (options.address.empty()) {
      options.address = token.enroll.empty() ? PortAfter(token.coordinator, kEnrollPort - kControlPort) : token.enroll;
    }
    ATOLL_RETURN_IF_ERROR(Annotate(CompleteEndpoint(options.address, kEnrollPort), "--at"));
    std::string passphrase;
    if (options.protect) {
      ATOLL_ASSIGN_OR_RETURN(passphrase, session.passphrases.New(options.out));
    }
    ATOLL_ASSIGN_OR_RETURN(const IdentityFile identity, EnrollWithToken(options.address, token, std::nullopt,
                                                                        options.name, options.out, passphrase));
    return ReadCertificate(identity.certificate_pem);
  };
  const absl::StatusOr<CertificateFacts> facts = enrol();
  if (!facts.ok()) return Fail(session, facts.status());
  session.talk << "enrolled as " << RoleName(facts->identity.role) << " '" << facts->identity.name << "', valid until "
               << DateText(facts->not_after_s) << "\n";
  session.out << options.out << "\n";
  return kExitOk;
}

}  // namespace

void AddTokenCommands(CLI::App& root, Command& command) {
  CLI::App& token = *root.add_subcommand("token", "create, list and revoke join tokens");
  token.require_subcommand(1);
  CLI::App& create = *token.add_subcommand("create", "create a join token and print its join string once");
  const auto c = std::make_shared<CreateOptions>();
  create.add_option("--role", c->role, "worker, viewer, operator or admin")->type_name("ROLE")->capture_default_str();
  create.add_option("--name", c->name, "the only name that may enrol with it; default: any")->type_name("NAME");
  create.add_option("--name-prefix", c->prefix, "any name that begins so may enrol with it; for a fleet with --uses")
      ->type_name("PREFIX")
      ->excludes("--name");
  AddWhole(create, "--uses", c->uses,
           absl::StrCat("number of identities that may enrol with it, at most ", kMostTokenUses), 1, kMostTokenUses)
      ->type_name("N")
      ->capture_default_str();
  create.add_option("--lifetime", c->lifetime, "validity, such as 30m or 24h; at most 30d")
      ->type_name("TIME")
      ->capture_default_str();
  create.add_option("--address", c->address, "address of the coordinator for the holder; default: --endpoint")
      ->type_name("HOST[:PORT]");
  create.add_option("--bulk-address", c->bulk_address, "its bulk port; default: the next port")
      ->type_name("HOST[:PORT]");
  create.add_option("--enroll-address", c->enroll_address, "its enrolment port; default: the port + 3")
      ->type_name("HOST[:PORT]");
  create.callback([=, &command] { command = TextOnly([c](Session& s) { return CreateToken(s, *c); }); });
  token.add_subcommand("list", "list join tokens, without their secrets")->callback([&command] {
    command = Takes(kDocumentForms, [](Session& s) { return ListTokens(s); });
  });
  CLI::App& revoke = *token.add_subcommand("revoke", "revoke a token and all identities enrolled with it");
  const auto id = std::make_shared<std::string>();
  revoke.add_option("id", *id, "ID shown by 'atoll token list'")->required()->type_name("ID");
  revoke.callback([=, &command] { command = TextOnly([id](Session& s) { return RevokeToken(s, *id); }); });

  CLI::App& enroll = *root.add_subcommand("enroll", "enrol with a join token and write an identity file");
  const auto e = std::make_shared<EnrollOptions>();
  enroll.add_option("--at", e->address, "enrolment port of the coordinator; default: as in the token")
      ->type_name("HOST[:PORT]");
  enroll.add_option("--join-token", e->token_file, "file with the token")->required()->type_name("FILE");
  enroll.add_option("--name", e->name, "your name, or the worker's name")->required()->type_name("NAME");
  enroll.add_option("--out", e->out, "file to write, mode 0600")->required()->type_name("FILE");
  enroll.add_flag("--protect", e->protect, kProtectHelp);
  enroll.callback([=, &command] { command = TextOnly([e](Session& s) { return Enroll(s, *e); }); });
}

}  // namespace atl::cli
