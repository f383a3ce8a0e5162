"""What a model would write: sees the test fail, mends the rounding, and sees it pass."""

import pathlib
import subprocess
import sys

CHECK = [sys.executable, "-B", "tests/test_invoice.py"]

before = subprocess.run(CHECK, capture_output=True, text=True)
assert before.returncode != 0, "there is nothing to mend"

source = pathlib.Path("invoice.py")
source.write_text(source.read_text().replace('.quantize(Decimal("0.01"))', '.quantize(Decimal("0.01"), ROUND_HALF_UP)'))

after = subprocess.run(CHECK, capture_output=True, text=True)
print(after.stderr.splitlines()[-1])
sys.exit(after.returncode)
