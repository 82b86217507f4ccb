#!/bin/sh
# The door of action.yml: picks the binary for this machine, checks it against dist/SHA256SUMS, and starts it with the
# variables that it needs and no others. POSIX sh and coreutils; no checkout, no network, any user.
#
# Inputs arrive as WQ_INPUT_*, which action.yml fills; an empty one leaves the variable of the job as it is.
# Exit status: the binary's own, or 2 for a wrong input, an unknown machine, or a binary that is not the released one.
set -eu

# Names of this script's own variables. Whatever a job calls by them is let go first, and what clears the environment below
# leaves them alone: a variable of the job, or a line of one that looks like a variable, must not change a step.
own="own here system machine name binary expected sum file actual copy mode phase trusted base keep role snapshot token \
branch contract policy origin budget visible staged require issues results readers workflows tool arguments launch_token \
launch_kind launch_slug names line list worker config odd"
for name in $own; do case "$name" in own | name) ;; *) unset "$name" ;; esac; done

say() { printf '%s\n' "$1" >&2; }
# One annotation: what is wrong and what to do. Neither holds values.
fail() {
  say "::error title=Work queue::$1 $2"
  exit 2
}

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)

# --- the binary -----------------------------------------------------------------------------------------------------
case "${RUNNER_OS:-$(uname -s)}" in
  Linux) system=linux ;;
  *) fail "This action runs on Linux runners alone." "Choose a Linux runner for this job." ;;
esac
case "${RUNNER_ARCH:-$(uname -m)}" in
  X64 | x86_64) machine=x64 ;;
  ARM64 | aarch64) machine=arm64 ;;
  *) fail "There is no binary for this processor." "Choose an x64 or arm64 runner for this job." ;;
esac
name="wq-$system-$machine"
binary="$here/$name"
if [ ! -f "$binary" ] || [ ! -f "$here/SHA256SUMS" ]; then
  fail "This revision of the action holds no binaries." "Pin the action to the commit of a release, or build them with dist/build.sh."
fi
expected=""
while read -r sum file; do
  if [ "${file#\*}" = "$name" ]; then expected=$sum; fi
done <"$here/SHA256SUMS"
actual=$(sha256sum <"$binary")
if [ -z "$expected" ] || [ "$expected" != "${actual%% *}" ]; then
  fail "The binary is not the one that was released." "Pin the action to the commit of a release; somebody may have changed its files."
fi
if [ ! -x "$binary" ]; then
  # A file system that keeps no modes, or another user's.
  copy=$(mktemp -d "${RUNNER_TEMP:-/tmp}/wq.XXXXXX")
  cp "$binary" "$copy/wq"
  chmod 0755 "$copy" "$copy/wq"
  binary="$copy/wq"
fi

# --- the mode -------------------------------------------------------------------------------------------------------
mode=${WQ_INPUT_MODE:-}
phase=${WQ_INPUT_PHASE:-}
trusted=1
case "$mode" in
  activation | origin | conclusion) ;;
  safe-outputs)
    case "$phase" in
      "" | settle | controls | deliver) ;;
      *) fail "The input phase is none of settle, controls and deliver." "Correct the step." ;;
    esac
    ;;
  # The agent's side: no token reaches it, whatever the step says.
  install | collect | mcp | tool) trusted="" ;;
  "") fail "The input mode is missing." "Name one: activation, origin, install, collect, safe-outputs or conclusion." ;;
  *) fail "The input mode is not known." "Use activation, origin, install, collect, safe-outputs or conclusion." ;;
esac
if [ -n "$phase" ] && [ "$mode" != safe-outputs ]; then
  fail "The input phase belongs to mode safe-outputs alone." "Remove it from the step."
fi

# --- mode install: the binary where the agent finds it ----------------------------------------------------------------
if [ "$mode" = install ]; then
  base="${RUNNER_TEMP:?the runner sets RUNNER_TEMP}/gh-aw"
  mkdir -p "$base/bin" "$base/mcp-cli/bin"
  cp -f "$binary" "$base/bin/.wq.new"
  chmod 0555 "$base/bin/.wq.new"
  mv -f "$base/bin/.wq.new" "$base/bin/wq"
  printf '#!/bin/sh\nexec "%s" tool "$@"\n' "$base/bin/wq" >"$base/mcp-cli/bin/.work-queue.new"
  chmod 0555 "$base/mcp-cli/bin/.work-queue.new"
  mv -f "$base/mcp-cli/bin/.work-queue.new" "$base/mcp-cli/bin/work-queue"
  if [ -n "${GITHUB_PATH:-}" ]; then printf '%s\n%s\n' "$base/bin" "$base/mcp-cli/bin" >>"$GITHUB_PATH"; fi
  if [ -n "${GITHUB_OUTPUT:-}" ]; then printf 'wq-path=%s\n' "$base/bin/wq" >>"$GITHUB_OUTPUT"; fi
  exit 0
fi

# --- the environment ------------------------------------------------------------------------------------------------
# What a job's own variables may pass on, by mode. Names only: values are never looked into, and no value becomes an
# argument, since arguments can be read by every process of the machine.
keep=" PATH HOME TMPDIR LANG LC_ALL DEBUG ACTIONS_RUNNER_DEBUG \
  HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY http_proxy https_proxy no_proxy all_proxy SSL_CERT_FILE SSL_CERT_DIR \
  RUNNER_TEMP RUNNER_DEBUG RUNNER_OS RUNNER_ARCH RUNNER_NAME RUNNER_ENVIRONMENT RUNNER_TOOL_CACHE RUNNER_WORKSPACE \
  GH_AW_WORK_QUEUE_ENABLED GH_AW_WORK_QUEUE_ROLE GH_AW_WORK_QUEUE_SNAPSHOT GH_AW_WORK_QUEUE_INTENTS \
  GH_AW_WORK_QUEUE_FINISH_INTENT GH_AW_MCP_LOG_DIR GH_AW_MCP_CLI_AUDIT_DIR GITHUB_SERVER_URL "
if [ -n "$trusted" ] || [ "$mode" = collect ]; then
  keep="$keep CI GITHUB_ACTIONS GITHUB_ACTION GITHUB_ACTOR GITHUB_ACTOR_ID GITHUB_API_URL GITHUB_BASE_REF GITHUB_ENV \
    GITHUB_EVENT_NAME GITHUB_EVENT_PATH GITHUB_GRAPHQL_URL GITHUB_HEAD_REF GITHUB_JOB GITHUB_OUTPUT GITHUB_PATH \
    GITHUB_REF GITHUB_REF_NAME GITHUB_REF_TYPE GITHUB_REPOSITORY GITHUB_REPOSITORY_ID GITHUB_REPOSITORY_OWNER \
    GITHUB_REPOSITORY_OWNER_ID GITHUB_RUN_ATTEMPT GITHUB_RUN_ID GITHUB_RUN_NUMBER GITHUB_SHA GITHUB_STATE \
    GITHUB_STEP_SUMMARY GITHUB_TRIGGERING_ACTOR GITHUB_WORKFLOW GITHUB_WORKFLOW_REF GITHUB_WORKFLOW_SHA \
    GITHUB_WORKSPACE GITHUB_AW_OTEL_TRACE_ID GITHUB_AW_OTEL_PARENT_SPAN_ID "
fi
# The retired ways to seed a queue are passed on so that they are refused, and not silently left out.
if [ -n "$trusted" ]; then
  keep="$keep GH_AW_WORK_QUEUE_BRANCH GH_AW_WORK_QUEUE_CONTRACT GH_AW_WORK_QUEUE_CONTROL_CONFIG \
    GH_AW_WORK_QUEUE_DEPENDENCY_READ_CREDENTIALS GH_AW_WORK_QUEUE_DISPATCH_BUDGET GH_AW_WORK_QUEUE_INTENT_ORIGIN \
    GH_AW_WORK_QUEUE_ISSUES GH_AW_WORK_QUEUE_JOB_RESULTS GH_AW_WORK_QUEUE_MAX_DISPATCHES GH_AW_WORK_QUEUE_POLICY \
    GH_AW_WORK_QUEUE_POLICY_PARTS GH_AW_WORK_QUEUE_REQUIRE_ASSIGNMENT GH_AW_WORK_QUEUE_VISIBLE_WORK \
    GH_AW_SAFE_OUTPUTS_STAGED GH_AW_SAFE_OUTPUTS_HANDLER_CONFIG GH_AW_AGENT_OUTPUT \
    GH_AW_WORK_QUEUE_SEED GH_AW_WORK_QUEUE_INITIALIZE GH_AW_WORK_QUEUE_INITIALIZATION_CONTEXT "
fi

# True for a variable that stays. Chunks of a Policy proposal and tokens for foreign repositories are numbered.
stays() {
  case "$keep" in *" $1 "*) return 0 ;; esac
  [ -n "$trusted" ] || return 1
  case "$1" in
    GH_AW_WORK_QUEUE_POLICY_*[!0-9]* | GH_AW_WORK_QUEUE_DEPENDENCY_READ_TOKEN_*[!0-9]*) return 1 ;;
    GH_AW_WORK_QUEUE_POLICY_[0-9]* | GH_AW_WORK_QUEUE_DEPENDENCY_READ_TOKEN_[0-9]*) return 0 ;;
  esac
  return 1
}

# The inputs are read before their variables go.
role=${WQ_INPUT_ROLE:-} snapshot=${WQ_INPUT_SNAPSHOT:-} token=${WQ_INPUT_TOKEN:-} branch=${WQ_INPUT_BRANCH:-}
contract=${WQ_INPUT_CONTRACT:-} policy=${WQ_INPUT_POLICY:-} origin=${WQ_INPUT_ORIGIN:-}
budget=${WQ_INPUT_DISPATCH_BUDGET:-} visible=${WQ_INPUT_VISIBLE_WORK:-} staged=${WQ_INPUT_STAGED:-}
require=${WQ_INPUT_REQUIRE_ASSIGNMENT:-} issues=${WQ_INPUT_ISSUES:-} results=${WQ_INPUT_JOB_RESULTS:-}
readers=${WQ_INPUT_READ_CREDENTIALS:-} workflows=${WQ_INPUT_WORKFLOWS:-} tool=${WQ_INPUT_TOOL:-}
arguments=${WQ_INPUT_ARGUMENTS:-} launch_token=${WQ_INPUT_LAUNCH_TOKEN:-}
launch_kind=${WQ_INPUT_LAUNCH_CREDENTIAL:-} launch_slug=${WQ_INPUT_LAUNCH_APP_SLUG:-}

# A line of a value may look like a variable; then a name is unset that is not there, or one that was to go anyway, or it is
# one of ours, which stay.
names=$(export -p | while IFS= read -r line; do
  line=${line#export }
  line=${line#declare -x }
  name=${line%%=*}
  case "$name" in "" | [0-9]* | *[!A-Za-z0-9_]*) ;; *) printf '%s\n' "$name" ;; esac
done)
for name in $names; do
  # A shell does not let go of its own read-only names; they go at the end.
  case "$name" in SHELLOPTS | BASHOPTS | UID | EUID | PPID | OPTIND | IFS) continue ;; esac
  case " $own " in *" $name "*) continue ;; esac
  if ! stays "$name"; then unset "$name"; fi
done

# `give NAME VALUE` sets a variable for the binary, unless the input is empty.
give() { if [ -n "$2" ]; then export "$1=$2"; fi; }
give GH_AW_WORK_QUEUE_ROLE "$role"
give GH_AW_WORK_QUEUE_SNAPSHOT "$snapshot"
give GH_AW_WORK_QUEUE_ENABLED "${GH_AW_WORK_QUEUE_ENABLED-true}"
if [ -n "$trusted" ]; then
  give GH_TOKEN "$token"
  give GH_AW_WORK_QUEUE_BRANCH "$branch"
  give GH_AW_WORK_QUEUE_CONTRACT "$contract"
  give GH_AW_WORK_QUEUE_POLICY "$policy"
  give GH_AW_WORK_QUEUE_INTENT_ORIGIN "$origin"
  give GH_AW_WORK_QUEUE_DISPATCH_BUDGET "$budget"
  give GH_AW_WORK_QUEUE_VISIBLE_WORK "$visible"
  give GH_AW_SAFE_OUTPUTS_STAGED "$staged"
  case "${GH_AW_SAFE_OUTPUTS_STAGED:-}" in
    "" | true | false) ;;
    *) fail "The input staged is neither true nor false." "Write true for a preview." ;;
  esac
  give GH_AW_WORK_QUEUE_REQUIRE_ASSIGNMENT "$require"
  give GH_AW_WORK_QUEUE_ISSUES "$issues"
  give GH_AW_WORK_QUEUE_JOB_RESULTS "$results"
  give GH_AW_WORK_QUEUE_DEPENDENCY_READ_CREDENTIALS "$readers"
  # The launch credential is for the one step that launches, and for no preview.
  if [ "$mode" = safe-outputs ] && [ "${phase:-controls}" = controls ] &&
    [ "${GH_AW_SAFE_OUTPUTS_STAGED:-}" != true ]; then
    give GH_AW_WORK_QUEUE_LAUNCH_TOKEN "$launch_token"
    give GH_AW_WORK_QUEUE_LAUNCH_CREDENTIAL "$launch_kind"
    give GH_AW_WORK_QUEUE_LAUNCH_APP_SLUG "$launch_slug"
  fi
  # Approved workers: names, separated by white space or commas.
  if [ -n "$workflows" ]; then
    if [ -n "${GH_AW_WORK_QUEUE_CONTROL_CONFIG:-}" ]; then
      fail "Approved workers are given twice." "Keep the input workflows or GH_AW_WORK_QUEUE_CONTROL_CONFIG, not both."
    fi
    list=""
    set -f
    for worker in $(printf '%s' "$workflows" | tr ',' ' '); do
      case "$worker" in
        *[!A-Za-z0-9._-]* | .*)
          fail "The input workflows holds a name that no workflow has." "Write base names, such as worker for worker.lock.yml."
          ;;
      esac
      list="$list${list:+,}\"$worker\""
    done
    set +f
    config="{\"aw_context_workflows\":[$list],\"work_queue_enabled\":true,\"work_queue_workflows\":[$list]}"
    give GH_AW_WORK_QUEUE_CONTROL_CONFIG "$config"
  fi
fi

GH_AW_WORK_QUEUE_BRANCH=${GH_AW_WORK_QUEUE_BRANCH:-}

# --- run --------------------------------------------------------------------------------------------------------------
case "$mode" in
  tool) set -- "$binary" tool "$tool" "${arguments:-"{}"}" ;;
  *) set -- "$binary" "$mode" ${phase:+--phase "$phase"} ;;
esac
# The queue branch is a flag of the command line.
case "$trusted$GH_AW_WORK_QUEUE_BRANCH" in
  1?*) set -- "$@" "--branch=$GH_AW_WORK_QUEUE_BRANCH" ;;
esac
# Some shells hand on variables whose names no shell can spell, or that cannot be unset.
odd=$(env | while IFS= read -r line; do
  name=${line%%=*}
  case "$name" in
    "$line" | "" | *[[:space:]]*) ;;
    SHELLOPTS | BASHOPTS | UID | EUID | PPID | *[!A-Za-z0-9_]* | [0-9]*)
      if [ "${#name}" -le 256 ]; then printf '%s\n' "$name"; fi
      ;;
  esac
done)
if [ -n "$odd" ]; then
  set -f
  for name in $odd; do set -- -u "$name" "$@"; done
  exec env "$@"
fi
exec "$@"
