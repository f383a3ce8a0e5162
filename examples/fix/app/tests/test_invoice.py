import sys
import unittest

sys.path.insert(0, ".")

from invoice import net, tax, total
from decimal import Decimal


class Invoice(unittest.TestCase):
    def test_net(self):
        self.assertEqual(net([(2, "19.99"), (1, "0.02")]), Decimal("40.00"))

    def test_tax_is_rounded_half_up(self):
        self.assertEqual(tax(Decimal("0.50"), "0.05"), Decimal("0.03"))

    def test_total(self):
        self.assertEqual(total([(1, "0.50")], "0.05"), 53)


if __name__ == "__main__":
    unittest.main()
