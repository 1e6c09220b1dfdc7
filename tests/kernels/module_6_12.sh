#!/usr/bin/env bash
# All of it on 6.12, whose fault handling and page counts are others.
exec "$(dirname -- "${BASH_SOURCE[0]}")/module_6_1.sh" all 6.12
