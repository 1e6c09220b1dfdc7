#!/usr/bin/env bash
# What module_6_1.sh leaves out, too: small chunks, and threads that write by the thousand.
exec "$(dirname -- "${BASH_SOURCE[0]}")/module_6_1.sh" all 6.1
