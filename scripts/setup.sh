#!/usr/bin/env bash
# Makes sure that the named tools are there. What a system package provides is installed with apt-get as root; an ordinary user is told what to ask for.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
need() { # tool package
    command -v "$1" >/dev/null 2>&1 || missing+=("$2")
}
in_image() { # tool package: what is to run inside has to be of the system
    [ -x "/usr/bin/$1" ] || [ -x "/usr/local/bin/$1" ] || missing+=("$2")
}

command -v cargo >/dev/null 2>&1 || { echo "setup: Rust is needed: cargo is not on the PATH" >&2; exit 1; }
for tool in "$@"; do
    case $tool in
        python3) [ -x /usr/bin/python3 ] || missing+=(python3) ;;
        cc) need cc gcc; need ld binutils; [ -e /usr/include/stdio.h ] || missing+=(libc6-dev) ;;
        c++) need c++ g++ ;;
        real-tools) # what the tests run inside
            in_image git git; in_image gcc gcc; in_image make make; in_image curl curl; in_image node nodejs; in_image rg ripgrep
            in_image sqlite3 sqlite3; in_image javac default-jdk-headless ;;
        package-clients) # what the tests of package indexes install with; Debian's npm brings its own node
            /usr/bin/python3 -m pip --version >/dev/null 2>&1 || missing+=(python3-pip); in_image npm npm ;;
        venv) /usr/bin/python3 -c 'import ensurepip' >/dev/null 2>&1 || missing+=(python3-venv) ;;
        network) need ip iproute2 ;; # what the tests make a second network with
        proxies) # what the broker is measured beside
            [ -x /usr/sbin/squid ] || missing+=(squid); [ -x /usr/bin/tinyproxy ] || missing+=(tinyproxy) ;;
        bubblewrap) need bwrap bubblewrap ;;
        busybox) need busybox busybox-static ;;
        cargo-deny) ;;
        clients-javascript) need node nodejs; need npm npm ;;
        clients-*) /usr/bin/python3 -c 'import ensurepip' >/dev/null 2>&1 || missing+=(python3-venv) ;;
        qemu)
            need qemu-system-x86_64 qemu-system-x86; need busybox busybox-static; need cpio cpio
            compgen -G '/boot/vmlinuz-*-cloud-amd64' >/dev/null || missing+=(linux-image-cloud-amd64) ;;
        *) need "$tool" "$tool" ;;
    esac
done

if [ ${#missing[@]} -gt 0 ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "setup: installing ${missing[*]}" >&2
        apt-get update -qq >&2
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
    else
        echo "setup: these packages are missing, and installing them needs root: ${missing[*]}" >&2
        echo "hint: apt-get install ${missing[*]}" >&2
        exit 1
    fi
fi

for tool in "$@"; do
    case $tool in
        venv) # the reference library that verifies our envelopes, and the libraries that programs compute with, in a place of their own
            if ! target/test-tools/bin/python -c 'import securesystemslib, cryptography, numpy, pandas, matplotlib, ipykernel, requests, uv' >/dev/null 2>&1; then
                rm -rf target/test-tools
                /usr/bin/python3 -m venv target/test-tools
                target/test-tools/bin/pip install --quiet --disable-pip-version-check -r scripts/test-tools.txt
            fi ;;
        clients-javascript) # a client of E2B for JavaScript, in the versions that are pinned
            if ! cmp -s clients/javascript/package-lock.json target/clients-javascript/package-lock.json; then
                rm -rf target/clients-javascript
                mkdir -p target/clients-javascript
                cp clients/javascript/package.json target/clients-javascript
                (cd target/clients-javascript && cp ../../clients/javascript/package-lock.json . && npm ci --silent --no-audit --no-fund) \
                    || { rm -rf target/clients-javascript; exit 1; }
            fi
            cp clients/javascript/run.js target/clients-javascript ;;
        clients-*) # a client of E2B for Python, in the versions that are pinned
            pinned=clients/${tool#clients-}/requirements.txt
            case $tool in clients-python-*) pinned=clients/python/requirements-${tool#clients-python-}.txt ;; esac
            if ! cmp -s "$pinned" "target/$tool/pinned.txt"; then
                rm -rf "target/$tool"
                /usr/bin/python3 -m venv "target/$tool"
                "target/$tool/bin/pip" install --quiet --disable-pip-version-check -r "$pinned"
                cp "$pinned" "target/$tool/pinned.txt"
            fi ;;
        cargo-deny)
            [ -x target/tools/bin/cargo-deny ] || cargo install --quiet --locked --root target/tools cargo-deny ;;
    esac
done
