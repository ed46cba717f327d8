// SPDX-License-Identifier: Apache-2.0
// The job files of `job init`. A test checks that they are valid and equal to deploy/examples.
#ifndef ATOLL_CLI_JOB_TEMPLATES_H_
#define ATOLL_CLI_JOB_TEMPLATES_H_

namespace atl::cli {

struct JobTemplate {
  const char* name;
  const char* text;
};

inline constexpr JobTemplate kJobTemplates[] = {
    {
        "tiny-llama",
#include "tiny-llama.yaml.inc"
    },
    {
        "llama-150m",
#include "llama-150m.yaml.inc"
    },
};

}  // namespace atl::cli

#endif  // ATOLL_CLI_JOB_TEMPLATES_H_
