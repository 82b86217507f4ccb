#!/usr/bin/env bash
# The agent of the dispatcher: three Work for three kinds of workers, each a graph of its own, so that none depends on
# another. Repeating it on the same day admits nothing twice.
#
# TO FILL IN: the scope of each task, if the whole repository is too much.
set -euo pipefail

day=$(date -u +%F)
work-queue work_queue_submit "$(jq -nc --arg day "$day" '{nodes: [
  {graph_id: "lint-mine-\($day)", node_key: "root", worker_profile: "miner", payload: {task: "mine", day: $day}},
  {graph_id: "lint-refine-\($day)", node_key: "root", worker_profile: "refiner", payload: {task: "refine", day: $day}},
  {graph_id: "lint-hunt-\($day)", node_key: "root", worker_profile: "monster", payload: {task: "hunt", day: $day}}
]}')"
work-queue work_queue_dispatch_next '{"pool":"default","max_claims":3,"max_dispatches":3}'
