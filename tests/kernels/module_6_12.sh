#!/usr/bin/env bash
# The same on 6.12, whose fault handling and page counts are others.
exec "$(dirname -- "${BASH_SOURCE[0]}")/module_6_1.sh" --kernel 6.12
