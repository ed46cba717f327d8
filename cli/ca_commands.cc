// SPDX-License-Identifier: Apache-2.0
// `atoll ca init|issue|protect|rotate|retire|show`: the authority of a coordinator, and identities made with its key;
// these commands need no coordinator. `atoll ca revoke|revocations`: names with certificates that a coordinator
// refuses.
#include <CLI/CLI.hpp>
#include <memory>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_format.h"
#include "cli/command_tree.h"
#include "cli/output.h"
#include "common/base/advice.h"
#include "common/base/names.h"
#include "common/base/utf8.h"
#include "common/base/wall_time.h"
#include "common/trust/secret_files.h"

namespace atl::cli {
namespace {

constexpr int kMaxIdentityPages = 1000;  // guards against a coordinator that never ends its list

struct IssueOptions {
  std::string directory, role = "admin", name, out;
  bool protect = false;
};

absl::Status CheckName(const std::string& name) {
  if (IsName(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--name is '", Printable(name.substr(0, 64)), "'; it must be ", kNameRule));
}

// Never overwrites an identity, because it may be in use.
absl::Status CheckIsFree(Session& session, const std::string& path) {
  if (!session.files.Exists(path)) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(path, " already exists; choose another file"));
}

absl::Status RefuseProtectedWorker() {
  return absl::InvalidArgumentError(
      "--protect works only for people's identities: a worker reads its identity at start and cannot ask for a "
      "passphrase");
}

// Checks that the identity can be issued, and returns the passphrase for --protect after asking for it; empty without
// --protect.
absl::StatusOr<std::string> CheckAndAsk(Session& session, const IssueOptions& options) {
  ATOLL_ASSIGN_OR_RETURN(const Role role, ParseRole(options.role));
  ATOLL_RETURN_IF_ERROR(CheckName(options.name));
  ATOLL_RETURN_IF_ERROR(CheckIsFree(session, options.out));
  if (!options.protect) return std::string();
  if (role == Role::kWorker) return RefuseProtectedWorker();
  return session.passphrases.New(options.out);
}

absl::Status Issue(Session& session, const Authority& authority, const IssueOptions& options,
                   const std::string& passphrase) {
  ATOLL_ASSIGN_OR_RETURN(const Role role, ParseRole(options.role));
  ATOLL_ASSIGN_OR_RETURN(const IdentityFile identity,
                         IssueIdentity(authority, {role, options.name, ""}, WallSeconds(session.clock)));
  ATOLL_RETURN_IF_ERROR(WriteIdentityFile(options.out, identity, passphrase));
  ATOLL_ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificate(identity.certificate_pem));
  session.talk << "wrote the identity of " << options.role << " '" << options.name << "', valid until "
               << DateText(facts.not_after_s) << "; it contains a private key"
               << (options.protect ? " under a passphrase" : "") << ": only its owner may read it\n";
  session.out << options.out << "\n";
  return absl::OkStatus();
}

// Checks the identity before the authority is created. CreateAuthority refuses a directory that has an authority.
absl::Status Init(Session& session, IssueOptions options) {
  options.out = JoinPath(options.directory, options.name + ".pem");
  const bool there = session.files.Exists(AuthorityKeyPath(options.directory));
  std::string passphrase;
  if (!there) {
    ATOLL_ASSIGN_OR_RETURN(passphrase, CheckAndAsk(session, options));
  }
  ATOLL_ASSIGN_OR_RETURN(const Authority authority, CreateAuthority(options.directory, WallSeconds(session.clock)));
  session.talk << "made an authority in " << options.directory << " (SHA-256 " << authority.fingerprint().Hex()
               << ")\nanybody with " << AuthorityKeyPath(options.directory)
               << " can issue any identity: keep the file on this machine\n";
  return Issue(session, authority, options, passphrase);
}

absl::Status IssueFrom(Session& session, const IssueOptions& options) {
  ATOLL_ASSIGN_OR_RETURN(const Authority authority, LoadAuthority(options.directory));
  ATOLL_ASSIGN_OR_RETURN(const std::string passphrase, CheckAndAsk(session, options));
  return Issue(session, authority, options, passphrase);
}

struct RotateOptions {
  std::string directory;
  bool retire = false;
};

absl::Status Rotate(Session& session, const RotateOptions& options) {
  const std::string& directory = options.directory;
  ATOLL_ASSIGN_OR_RETURN(const Authority made, RotateAuthority(directory, WallSeconds(session.clock), options.retire));
  session.talk << "made a new authority in " << directory << " (SHA-256 " << made.fingerprint().Hex()
               << "), which a coordinator with --trust loads within seconds\n";
  if (options.retire) {
    session.talk
        << "the previous authority is retired: its certificates and join tokens are refused, and every person and "
           "worker must enrol again; restart the coordinator, because open connections stay open otherwise\n";
  } else {
    session.talk << "workers get certificates of the new authority within half a day, people with their next identity "
                    "('atoll ca "
                    "issue', 'atoll enroll')\nthe previous authority stays trusted; its last certificates expire at "
                 << DateText(RetireAfter(made)) << ", then run: atoll ca retire " << ShellWord(directory) << "\n";
  }
  session.out << AuthorityCertificatePath(directory) << "\n";
  return absl::OkStatus();
}

struct RetireOptions {
  std::string directory;
  bool early = false;
};

absl::Status Retire(Session& session, const RetireOptions& options) {
  ATOLL_ASSIGN_OR_RETURN(const Authority held, LoadAuthority(options.directory));
  const int64_t after_s = RetireAfter(held);
  if (held.is_rotated() && !options.early && WallSeconds(session.clock) < after_s) {
    return absl::FailedPreconditionError(
        absl::StrCat("the authority in ", options.directory, " was rotated at ", DateText(held.create_s()),
                     ", and identities of the previous authority may be in use until ", DateText(after_s),
                     ": wait, or give --early; people and workers without a newer identity must then enrol again"));
  }
  ATOLL_ASSIGN_OR_RETURN(const Authority alone, RetireAuthority(options.directory));
  session.talk << "the authority before " << alone.fingerprint().Hex()
               << " is no longer trusted: a coordinator with --trust refuses its certificates and join tokens within "
                  "seconds; open connections stay open\n";
  session.out << AuthorityCertificatePath(options.directory) << "\n";
  return absl::OkStatus();
}

// Adds a passphrase to an existing identity.
absl::Status Protect(Session& session, const std::string& path) {
  ATOLL_ASSIGN_OR_RETURN(const IdentityFile identity, ReadLockedIdentityFile(path));
  ATOLL_ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificate(identity.certificate_pem));
  if (facts.identity.role == Role::kWorker) return RefuseProtectedWorker();
  if (IsProtected(identity.key_pem))
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is already protected; 'atoll ca issue' creates a new identity"));
  ATOLL_ASSIGN_OR_RETURN(const std::string passphrase, session.passphrases.New(path));
  ATOLL_RETURN_IF_ERROR(WriteIdentityFile(path, identity, passphrase));
  session.talk << path
               << " is now protected; earlier copies are not, and the disk may still contain the unprotected key\n";
  return absl::OkStatus();
}

absl::Status Show(Session& session, const std::string& path) {
  ATOLL_ASSIGN_OR_RETURN(const IdentityFile identity, ReadLockedIdentityFile(path));
  ATOLL_ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificate(identity.certificate_pem));
  session.out << "role         " << RoleName(facts.identity.role) << "\nname         " << facts.identity.name
              << "\njoin token   " << (facts.identity.token.empty() ? "none" : facts.identity.token)
              << "\nbegins       " << DateText(facts.not_before_s) << "\nends         " << DateText(facts.not_after_s)
              << "\nfingerprint  " << facts.fingerprint.Hex() << "\npassphrase   "
              << (IsProtected(identity.key_pem) ? "yes" : "no") << "\n";
  ATOLL_ASSIGN_OR_RETURN(const std::vector<AuthorityFacts> authorities, ReadAuthorities(identity.authority_pem));
  for (const AuthorityFacts& authority : authorities) {
    session.out << "trusts       " << authority.fingerprint.Hex() << " until " << DateText(authority.not_after_s)
                << "\n";
  }
  return CheckTimes(facts, WallSeconds(session.clock));
}

int Revoke(Session& session, const std::string& name) {
  v1::RevokeIdentityRequest request;
  request.set_name(name);
  const auto response = session.api.RevokeIdentity(request);
  if (!response.ok()) return Fail(session, response.status());
  // Certificates have times in seconds: one issued in the same second would be taken for an old
  // one.
  session.pause_before_retry(Seconds(1));
  session.talk << "every certificate of '" << Printable(response->revocation().name()) << "' issued up to "
               << DateText(response->revocation().revoke_time().seconds())
               << " is refused, and the connections that used them are closed; enrol the name again with a new join "
                  "token or 'atoll ca issue'\n";
  // The coordinator has no list of the names that were issued elsewhere.
  v1::ListWorkersRequest known;
  known.set_include_lost(true);
  const auto workers = session.api.ListWorkers(known);
  if (workers.ok() && absl::c_none_of(workers->workers(), [&](const auto& w) { return ShortName(w.name()) == name; }))
    session.talk << "no worker has that name here: unless it is a person's, check its spelling\n";
  return kExitOk;
}

int ListRevocations(Session& session) {
  v1::ListRevocationsRequest request;
  v1::ListRevocationsResponse all;
  for (int page = 0; page < kMaxIdentityPages; ++page) {
    const auto response = session.api.ListRevocations(request);
    if (!response.ok()) return Fail(session, response.status());
    all.mutable_revocations()->MergeFrom(response->revocations());
    request.set_page_token(response->next_page_token());
    if (request.page_token().empty()) break;
  }
  if (session.format == OutputFormat::kJsonl) {
    for (const v1::Revocation& revocation : all.revocations()) session.out << ToJson(revocation, true);
    return kExitOk;
  }
  if (PrintMessage(session, all)) return kExitOk;
  session.out << absl::StrFormat("%-20s  %-23s  %s\n", "NAME", "UNTIL", "BY");
  for (const v1::Revocation& revocation : all.revocations()) {
    session.out << absl::StrFormat("%-20s  %-23s  %s\n", Printable(revocation.name()),
                                   DateText(revocation.revoke_time().seconds()), Printable(revocation.revoked_by()));
  }
  return kExitOk;
}

// Makes a command from a function that returns a status.
template <typename Run>
Command Running(Run run) {
  return TextOnly([run](Session& session) {
    const absl::Status status = run(session);
    return status.ok() ? static_cast<int>(kExitOk) : Fail(session, status);
  });
}

}  // namespace

void AddCaCommands(CLI::App& root, Command& command) {
  CLI::App& ca =
      *root.add_subcommand("ca", "create a coordinator's certificate authority, and identities signed by it");
  ca.require_subcommand(1);

  CLI::App& init = *ca.add_subcommand("init", "create a certificate authority and the first admin's identity");
  const auto i = std::make_shared<IssueOptions>();
  i->name = "admin";
  init.add_option("directory", i->directory, "directory that does not exist or has no authority")
      ->required()
      ->type_name("DIR");
  init.add_option("--name", i->name, "name of the first admin")->type_name("NAME")->capture_default_str();
  init.add_flag("--protect", i->protect, kProtectHelp);
  init.callback([=, &command] { command = Running([i](Session& s) { return Init(s, *i); }); });

  CLI::App& issue = *ca.add_subcommand("issue", "create an identity with the authority's key, without a join token");
  const auto o = std::make_shared<IssueOptions>();
  issue.add_option("directory", o->directory, "directory of the authority")->required()->type_name("DIR");
  issue.add_option("--role", o->role, "viewer, operator, admin or worker")->required()->type_name("ROLE");
  issue.add_option("--name", o->name, "name of the person or worker")->required()->type_name("NAME");
  issue.add_option("--out", o->out, "file to write, mode 0600")->required()->type_name("FILE");
  issue.add_flag("--protect", o->protect, kProtectHelp);
  issue.callback([=, &command] { command = Running([o](Session& s) { return IssueFrom(s, *o); }); });

  CLI::App& protect = *ca.add_subcommand("protect", "protect an existing identity with a passphrase");
  const auto plain = std::make_shared<std::string>();
  protect.add_option("file", *plain, "identity file of a person")->required()->type_name("FILE");
  protect.callback([=, &command] { command = Running([plain](Session& s) { return Protect(s, *plain); }); });

  CLI::App& rotate = *ca.add_subcommand("rotate", "create a new authority; the previous authority stays trusted");
  const auto n = std::make_shared<RotateOptions>();
  rotate.add_option("directory", n->directory, "directory of the authority")->required()->type_name("DIR");
  rotate.add_flag("--retire", n->retire,
                  "stop trusting the previous authority at once, for example after theft of its key");
  rotate.callback([=, &command] { command = Running([n](Session& s) { return Rotate(s, *n); }); });

  CLI::App& retire = *ca.add_subcommand("retire", "stop trusting the authority used before the last rotation");
  const auto r = std::make_shared<RetireOptions>();
  retire.add_option("directory", r->directory, "directory of the authority")->required()->type_name("DIR");
  retire.add_flag("--early", r->early, "even if its identities may still be in use");
  retire.callback([=, &command] { command = Running([r](Session& s) { return Retire(s, *r); }); });

  CLI::App& revoke = *ca.add_subcommand("revoke", "revoke all certificates of a name at a coordinator");
  const auto name = std::make_shared<std::string>();
  revoke.add_option("name", *name, "name of a person or a worker")->required()->type_name("NAME");
  revoke.callback([=, &command] { command = TextOnly([name](Session& s) { return Revoke(s, *name); }); });

  ca.add_subcommand("revocations", "list the revoked names")->callback([&command] {
    command = Takes(kDocumentForms, [](Session& s) { return ListRevocations(s); });
  });

  CLI::App& show =
      *ca.add_subcommand("show", "show the owner of an identity file, its validity and its trusted authorities");
  const auto path = std::make_shared<std::string>();
  show.add_option("file", *path, "identity file")->required()->type_name("FILE");
  show.callback([=, &command] { command = Running([path](Session& s) { return Show(s, *path); }); });
}

}  // namespace atl::cli
