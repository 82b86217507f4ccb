#!/usr/bin/env bash
# Builds the static `wq` binaries that action.yml runs, and dist/SHA256SUMS beside them.
#
# Usage: dist/build.sh [--target x86_64|aarch64|all] [--offline] [--musl-only]
#   --target     what to build for; this machine's architecture unless given, repeatable
#   --offline    installs nothing and downloads nothing: what is missing is named, and the script ends with status 2
#   --musl-only  no binary at all rather than one that is static against this machine's glibc; what a release uses
#
# Results: dist/wq-linux-x64 and dist/wq-linux-arm64, stripped and static, and dist/SHA256SUMS of those that are there.
# Everything that this script installs lies under target/, but for rustup's targets and components.
#
# Needs: Rust (the version in Cargo.toml, or newer), and python3 with venv, or `zig` and `cargo-zigbuild` on the PATH.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

offline=""
musl_only=""
wanted=()
most_bytes=10485760
zig_package="ziglang==0.17.1"
zigbuild_package="cargo-zigbuild==0.24.1"
tools="$PWD/target/dist-tools"

say() { printf 'dist/build.sh: %s\n' "$*" >&2; }
fail() {
  say "$*"
  exit 2
}

add_target() {
  case $1 in
    x86_64 | amd64 | x64 | x86_64-unknown-linux-musl) wanted+=(x86_64) ;;
    aarch64 | arm64 | aarch64-unknown-linux-musl) wanted+=(aarch64) ;;
    all) wanted+=(x86_64 aarch64) ;;
    *) fail "no such target: use x86_64, aarch64 or all" ;;
  esac
}

while [ $# -gt 0 ]; do
  case $1 in
    --target)
      [ $# -ge 2 ] || fail "--target needs a value: x86_64, aarch64 or all"
      add_target "$2"
      shift
      ;;
    --target=*) add_target "${1#--target=}" ;;
    --offline) offline=1 ;;
    --musl-only) musl_only=1 ;;
    -h | --help)
      sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' dist/build.sh
      exit 0
      ;;
    *) fail "unknown argument; see dist/build.sh --help" ;;
  esac
  shift
done
[ ${#wanted[@]} -gt 0 ] || add_target "$(uname -m)"

if ! command -v cargo >/dev/null || ! command -v rustc >/dev/null; then fail "cargo and rustc are not on the PATH: install Rust"; fi

# True if version $1 is at least version $2.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }
needed=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
present=$(rustc --version | cut -d ' ' -f 2)
at_least "$present" "$needed" || fail "Rust $needed or newer is needed, and this is $present"

sysroot=$(rustc --print sysroot)
has_target() { compgen -G "$sysroot/lib/rustlib/$1/lib/libstd-*.rlib" >/dev/null; }
has_source() { [ -f "$sysroot/lib/rustlib/src/rust/library/std/Cargo.toml" ]; }
may_install() { [ -z "$offline" ] && command -v "$1" >/dev/null; }

# How the standard library for a target is had: `installed`, `source` (built along), `glibc` or `none`.
standard_library() {
  local target=$1 machine=$2
  if has_target "$target"; then echo installed && return; fi
  if may_install rustup && rustup target add "$target" >&2 && has_target "$target"; then echo installed && return; fi
  if has_source; then echo source && return; fi
  if may_install rustup && rustup component add rust-src >&2 && has_source; then echo source && return; fi
  if [ -z "$musl_only" ] && [ "$machine" = "$(uname -m)" ] && has_target "$machine-unknown-linux-gnu"; then
    echo glibc && return
  fi
  echo none
}

# Puts zig and cargo-zigbuild on the PATH; false if they are not to be had.
zig_ready() {
  [ ! -d "$tools/bin" ] || PATH="$tools/bin:$PATH"
  export PATH
  if cargo-zigbuild --version >/dev/null 2>&1 &&
    { command -v zig >/dev/null || python3 -c 'import ziglang' 2>/dev/null || "$tools/bin/python" -c 'import ziglang' 2>/dev/null; }; then
    return 0
  fi
  may_install python3 || return 1
  say "installing zig and cargo-zigbuild into target/dist-tools"
  python3 -m venv "$tools" && "$tools/bin/python" -m pip install --quiet --disable-pip-version-check \
    "$zig_package" "$zigbuild_package" >&2 || return 1
  PATH="$tools/bin:$PATH"
}

build() {
  local machine=$1 name=$2
  local target="$machine-unknown-linux-musl" flags="-C relocation-model=static" how
  how=$(standard_library "$target" "$machine")
  local arguments=(--locked --release --bin wq --target-dir target/dist)
  [ -z "$offline" ] || arguments+=(--offline)
  case $how in
    none)
      fail "there is no Rust standard library for $target: run 'rustup target add $target', or 'rustup component add rust-src'"
      ;;
    glibc)
      target="$machine-unknown-linux-gnu"
      flags="$flags -C target-feature=+crt-static"
      say "no musl: the binary is static against this machine's glibc; good for tests, not for a release"
      ;;
    *)
      zig_ready || fail "zig is missing: run 'python3 -m venv target/dist-tools && target/dist-tools/bin/pip install $zig_package $zigbuild_package'"
      # zig brings its own start files and libc.
      [ "$how" != source ] || flags="$flags -C link-self-contained=no"
      ;;
  esac
  say "building for $target (standard library: $how)"
  local variable
  variable="CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$target")_RUSTFLAGS"
  # Paths of this machine stay out of the binary.
  flags="$flags --remap-path-prefix=$PWD=. --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"
  case $how in
    glibc) env -u RUSTFLAGS "$variable=$flags" cargo build "${arguments[@]}" --target "$target" ;;
    source)
      env -u RUSTFLAGS "$variable=$flags" RUSTC_BOOTSTRAP=1 \
        cargo zigbuild "${arguments[@]}" --target "$target" -Z build-std=std,panic_abort
      ;;
    installed) env -u RUSTFLAGS "$variable=$flags" cargo zigbuild "${arguments[@]}" --target "$target" ;;
  esac
  install -m 0755 "target/dist/$target/release/wq" "dist/$name"
  check "dist/$name" "$machine"
}

# Refuses what must not be released: too large, dynamic, or, where it can run here, not itself.
check() {
  local file=$1 machine=$2 bytes
  bytes=$(wc -c <"$file")
  [ "$bytes" -le "$most_bytes" ] || fail "$file has $bytes bytes, more than $most_bytes"
  if command -v file >/dev/null; then
    file -b "$file" | grep -q 'statically linked' || fail "$file is not statically linked"
  fi
  if [ "$machine" = "$(uname -m)" ]; then "$file" --version >&2; fi
  say "$file: $bytes bytes"
}

for machine in $(printf '%s\n' "${wanted[@]}" | sort -u); do
  case $machine in
    x86_64) build x86_64 wq-linux-x64 ;;
    aarch64) build aarch64 wq-linux-arm64 ;;
  esac
done

cd dist
rm -f SHA256SUMS
sha256sum wq-linux-* >SHA256SUMS
cat SHA256SUMS
