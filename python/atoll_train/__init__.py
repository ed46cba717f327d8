# SPDX-License-Identifier: Apache-2.0
"""Atoll: low-communication training of language models. This package holds the programs; launch.py starts them."""
