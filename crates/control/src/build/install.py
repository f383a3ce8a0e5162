# Installs pinned wheels below /opt/python and packs them, the same each time: run inside a sandbox that sees the base of the image. Its arguments are
# programs of the image: NAME=PLACE.
import compileall, glob, importlib.util, os, py_compile, subprocess, sys, tarfile

root, target = "/workspace/root", "/workspace/root/opt/python"
if importlib.util.find_spec("pip"):
    pip = [sys.executable, "-m", "pip"]
else:
    wheels = glob.glob("/usr/share/python-wheels/pip-*.whl")
    if not wheels:
        sys.exit("the base has no pip: install python3-pip on the host, or name a base that has it")
    pip = [sys.executable, wheels[0] + "/pip"]
given = ["--no-index", "--find-links", "/inputs"] if glob.glob("/inputs/*.whl") else []
options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--no-compile", "--no-cache-dir", "--no-warn-script-location"]
options += ["--disable-pip-version-check", "--no-input", "--quiet", "--root-user-action", "ignore"]
done = subprocess.run(pip + ["install", "--target", target, "-r", "/inputs/requirements.txt"] + options + given)
if done.returncode:
    sys.exit("pip could not install what the recipe names; its wheels are made for one version of Python, here " + sys.version.split()[0])
os.makedirs(target + "/bin", exist_ok=True)
for name, place in (program.split("=", 1) for program in sys.argv[1:]):
    os.symlink("../" + place, target + "/bin/" + name)
compileall.compile_dir(target, quiet=2, stripdir=root, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)


def plain(entry):
    entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = 1, 0, 0, "", ""
    return entry


with tarfile.open("/workspace/layer.tar", "w", format=tarfile.GNU_FORMAT) as tar:
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in sorted(files) + [name for name in folders if os.path.islink(os.path.join(folder, name))]:
            path = os.path.join(folder, name)
            tar.add(path, arcname=os.path.relpath(path, root), recursive=False, filter=plain)
