#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# generate_proto.sh PROTOC GRPC_PLUGIN PROTO_ROOT OUT_DIR NAME
# Runs protoc for atoll/v1/NAME.proto, then moves the generated C++ from namespace atoll to
# namespace atl. The C library declares a function `atoll` in the global namespace, so no C++
# namespace can have that name (docs/adr/0001). Names on the wire (atoll.v1.JobService) are strings
# and do not change.
set -eu
"$1" -I "$3" --cpp_out="$4" --grpc_out="$4" --plugin=protoc-gen-grpc="$2" "$3/atoll/v1/$5.proto"
for kind in pb.cc pb.h grpc.pb.cc grpc.pb.h; do
  sed -i -e 's/\batoll::/atl::/g' -e 's/\bnamespace atoll\b/namespace atl/g' "$4/atoll/v1/$5.$kind"
done
