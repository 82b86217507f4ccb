#!/usr/bin/env bash
# The agent of the dispatcher: three of ten reporting profiles, chosen at each day's activation. All three share the
# graph of the day and are roots: no edge joins them. Repeating it on the same day admits nothing twice.
#
# TO FILL IN: the choice. This one goes round, so that each profile has its turn within four days; yours may look at the
# repository. Whatever it chooses, choose the same on the same day.
set -euo pipefail

day=$(date -u +%F)
profiles=(report-builds report-changes report-coverage report-dependencies report-docs report-flakes report-issues report-performance report-reviews report-security)
first=$(($(date -u -d "$day" +%s) * 3 / 86400))
nodes="[]"
for offset in 0 1 2; do
  profile=${profiles[$(((first + offset) % ${#profiles[@]}))]}
  nodes=$(jq -c --arg day "$day" --arg profile "$profile" \
    '. + [{graph_id: "reports-\($day)", node_key: $profile, worker_profile: $profile, payload: {report: $profile, day: $day}}]' <<<"$nodes")
done
work-queue work_queue_submit "$(jq -c '{nodes: .}' <<<"$nodes")"
# At most three, today's or not: an older day's reports that still wait have their turn first.
work-queue work_queue_dispatch_next '{"pool":"default","max_claims":3,"max_dispatches":3}'
