# Sourced by ./up and ./test: finds or installs what they need. Tools go to .tools/, system packages
# through apt; nothing else on the machine is touched.
tools=$PWD/.tools
export HOME=${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}

say() { printf '%s\n' "$*" >&2; }

as_root() {
    if [ "$(id -u)" = 0 ]; then
        DEBIAN_FRONTEND=noninteractive "$@"
    elif command -v sudo >/dev/null; then
        sudo DEBIAN_FRONTEND=noninteractive "$@"
    else
        say "this needs root (there is no sudo here): $*"
        return 1
    fi
}

# Refreshes apt's lists once per run.
apt_lists() {
    [ -n "${apt_is_fresh:-}" ] || as_root apt-get update -qq >/dev/null
    apt_is_fresh=1
}

need_package() { # COMMAND PACKAGE...
    local command=$1
    shift
    # A program, not what the shell has built in: others start it too.
    type -P "$command" >/dev/null && return
    command -v apt-get >/dev/null || {
        say "missing: $command. Install it (Debian: $*) and run this again."
        exit 1
    }
    say "installing $* (for $command)"
    apt_lists
    as_root apt-get install -y -qq "$@" >/dev/null
}

need_rust() {
    command -v cargo >/dev/null || PATH=$HOME/.cargo/bin:$PATH
    command -v cargo >/dev/null || {
        say "missing: cargo. Install Rust 1.95 or newer (rustup) and run this again."
        exit 1
    }
    need_package cc gcc libc6-dev
    # Crates are fetched over TLS.
    [ -e /etc/ssl/certs/ca-certificates.crt ] || need_package update-ca-certificates ca-certificates
}

# The formatter and the linter, which the smallest installations of Rust leave out.
need_rust_tools() {
    cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 && return
    if command -v rustup >/dev/null; then
        say "installing rustfmt and clippy (rustup)"
        rustup --quiet component add rustfmt clippy
    else
        need_package cargo-fmt rustfmt
        need_package cargo-clippy rust-clippy
    fi
}

# Unpacks Debian's own (old) kubectl without installing it, so that it cannot collide with another one.
debian_kubectl() { # prints its path, or nothing where it cannot be had
    local bin=$tools/kubernetes-client/usr/bin/kubectl
    if [ ! -x "$bin" ] && command -v apt-get >/dev/null; then
        mkdir -p "$tools"
        (
            cd "$tools"
            apt-get download -qq kubernetes-client >/dev/null 2>&1 ||
                { apt_lists && apt-get download -qq kubernetes-client >/dev/null 2>&1; }
            dpkg -x kubernetes-client_*.deb kubernetes-client && rm -f kubernetes-client_*.deb
        ) || return 0
    fi
    [ ! -x "$bin" ] || echo "$bin"
}

# Installs the Python client for Kubernetes into .tools/.
python_client() { # prints the interpreter that has it
    local venv=$tools/venv
    need_package python3 python3
    if [ ! -x "$venv/bin/pip" ]; then
        python3 -m venv "$venv" >/dev/null 2>&1 ||
            { need_package python3-venv python3-venv && python3 -m venv "$venv"; } || return 1
    fi
    "$venv/bin/python" -c 'import kubernetes' 2>/dev/null || "$venv/bin/pip" install -q kubernetes || return 1
    echo "$venv/bin/python"
}
