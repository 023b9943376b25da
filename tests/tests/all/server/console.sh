# The console as the package has it: a service in a box, that shows and mends.

# page PATH WORDS...: asks it, as a page of its own does.
page() {
    path=$1
    shift
    curl -s -b jar -H 'Origin: http://127.0.0.1:8380' "$@" "http://127.0.0.1:8380$path"
}

# sign_in: takes the token to it, and keeps the token of its pages.
sign_in() {
    token=$(brindle console --token --state /run/brindle-console)
    page /login -c jar -o /dev/null -d "token=$token" || return
    page_token=$(page /api/v1/session | sed -n 's/.*"page_token": *"\([0-9a-f]*\)".*/\1/p')
    [ -n "$page_token" ]
}

# console: starts it by the block of docs/console.md, and puts what it shows and what it may not.
console() {
    step console . ./console-block
    step sign_in until_so sign_in
    page / >first-page
    put page "$(head -c 15 first-page)$(tr -d '\n' <first-page | tail -c 7)"
    put assets "$(for asset in $(grep -oE '/assets/[a-z.-]+' first-page | sort -u); do page "$asset" -o /dev/null -w '%{http_code} '; done)"
    put overview "$(page /api/v1/overview | tr -d '\n')"
    put detail "$(page /api/v1/detail/brindle/data -w ' %{http_code}' | tr -d '\n')"
    put unasked "$(curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:8380/api/v1/overview)"
    put exposure "$(systemd-analyze security --no-pager brindle-console | sed -n 's/.*exposure level for brindle-console.service: \([0-9.]*\).*/\1/p')"
    pid=$(systemctl show -p MainPID --value brindle-console)
    put console "$(grep -E '^(CapBnd|NoNewPrivs|Seccomp):' "/proc/$pid/status" | tr -d '\t' | tr '\n' ' ')"
    put console_user "$(stat -c %u "/proc/$pid")"
}

# order JSON: has it carry an order out.
order() {
    page /api/v1/orders -H "X-Page-Token: $page_token" -d "$1" -w ' %{http_code}' | tr -d '\n'
}

# is_shown_whole: whether the page of the array says that nothing is lacking.
is_shown_whole() {
    page /api/v1/item/brindle/data | grep -qE '"severity": *"(fine|busy|warning)"'
}
