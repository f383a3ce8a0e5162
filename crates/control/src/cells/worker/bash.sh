# The worker of a bash code context. Requests come on standard input as fields that end in a zero byte; frames go out among the output
# (cells/frame.rs says what a frame is). A cell is sourced at the outermost level, so that what it declares is global and stays.
# Interrupts, `exit` and `set -e` must end the cell and not the shell: from then on a DEBUG trap lets every function and the source return.
exec {_cell_in}<&0 {_cell_out}>&1 {_cell_err}>&2 </dev/null

_cell_frame() { printf '\x1e%s.%s\n' "$_cell_token" "$1"; }

_cell_return() { ((${#FUNCNAME[@]} <= 1)) || return 2; }

_cell_leave() {
    _cell_left=1 _cell_status=$1 _cell_name=$2
    shopt -s extdebug
    set -T
    trap _cell_return DEBUG
}

exit() {
    local status=${1:-$?}
    ((BASHPID == $$)) || builtin exit "$status"
    [[ $status =~ ^[0-9]{1,9}$ ]] || status=2
    _cell_leave "$((10#$status % 256))" ExitCode
}

# `set -e`, taken back for a moment: the shell would end right after this trap.
_cell_failed() {
    [[ $- == *e* ]] || return 0
    ((BASHPID == $$)) || return 0
    set +e
    _cell_errexit=1
    _cell_leave "$1" ExitCode
}

_cell_read() {
    local count field i
    _cell_code='' _cell_variables=()
    IFS= read -r -d '' -u "$_cell_in" _cell_token || return
    IFS= read -r -d '' -u "$_cell_in" _cell_cwd || return
    IFS= read -r -d '' -u "$_cell_in" count || return
    for ((i = 0; i < count; i++)); do
        IFS= read -r -d '' -u "$_cell_in" field || return
        _cell_variables+=("$field")
    done
    IFS= read -r -d '' -u "$_cell_in" _cell_code
}

# Sets the variables of the request, and keeps what was there as commands that bring it back.
_cell_set() {
    local field name before
    _cell_before=()
    for field in "${_cell_variables[@]}"; do
        name=${field%%=*}
        _cell_before+=("unset -v $name")
        if before=$(declare -p "$name" 2>/dev/null); then
            _cell_before+=("declare -g ${before#declare }")
        fi
        export "$field" || return
    done
}

_cell_put_back() {
    local command
    for command in "${_cell_before[@]}"; do
        eval "$command"
    done
}

# What a command before the cell needs: descriptors and traps, whatever the last cell did to them.
_cell_prepare() {
    exec </dev/null 1>&"$_cell_out" 2>&"$_cell_err"
    unset -f builtin trap source printf exec read shopt set eval export unset declare local return 2>/dev/null
    _cell_left=0 _cell_status=0 _cell_name=ExitCode
    trap '_cell_leave 130 Interrupted' INT
    trap '_cell_failed $?' ERR
    set -E
    ((_cell_errexit)) && set -e
    _cell_errexit=0
    return 0
}

# The shell's own end, by `set -u` or `${x:?}`: the last word of this context.
_cell_gone() {
    local status=$?
    ((BASHPID == $$)) || return 0
    _cell_end "$status" ContextEnded 'the shell ended with the cell; restart the context'
}

_cell_end() {
    local status=$1 name=$2 value=$3
    if ((status != 0)); then
        _cell_frame "{\"type\":\"error\",\"name\":\"$name\",\"value\":\"$value\",\"traceback\":\"\"}" >&"$_cell_out"
    fi
    _cell_frame '{"type":"ended"}' >&"$_cell_err"
    _cell_frame '{"type":"ended"}' >&"$_cell_out"
}

_cell_finish() {
    trap '' INT
    trap - ERR
    set +T +E
    [[ $- == *e* ]] && _cell_errexit=1
    set +e
    shopt -u extdebug
    ((_cell_left)) || _cell_status=$1
    _cell_put_back
    trap - EXIT
    _cell_end "$_cell_status" "$_cell_name" "exit status $_cell_status"
}

_cell_errexit=0
trap '' INT
while _cell_read; do
    exec 1>&"$_cell_out"
    _cell_frame '{"type":"started"}'
    trap _cell_gone EXIT
    if _cell_set && { [[ -z $_cell_cwd ]] || cd -- "$_cell_cwd"; }; then
        _cell_prepare
        source <(builtin printf '%s\n' "$_cell_code")
        _cell_sourced=$?
        trap - DEBUG
        _cell_finish "$_cell_sourced"
    else
        _cell_finish 1
    fi
done
