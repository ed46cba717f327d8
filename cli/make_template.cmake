# SPDX-License-Identifier: Apache-2.0
# Turns a file into a C++ raw string literal: cmake -DIN=a.yaml -DOUT=a.inc -P make_template.cmake
file(READ ${IN} text)
file(WRITE ${OUT} "R\"template(${text})template\"\n")
