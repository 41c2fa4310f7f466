#!/bin/sh
# symbols.sh NM LIBRARY HEADER: the library exports exactly the functions that the header declares.
set -eu
exported=$("$1" -D --defined-only "$2" | awk '{print $3}' | sort)
declared=$(tr '\n' ' ' <"$3" | grep -o 'HAWKEYE_API [^(;]*(' | grep -o 'hawkeye_[a-z_0-9]*($' | tr -d '(' | sort)
[ -n "$declared" ] || { echo "no declaration was found in $3"; exit 1; }
if [ "$exported" != "$declared" ]; then
    printf 'exported:\n%s\ndeclared:\n%s\n' "$exported" "$declared"
    exit 1
fi
