"""Totals of invoices, in cents."""

from decimal import ROUND_HALF_UP, Decimal


def net(lines):
    """The sum of quantity times price; prices are decimal strings, such as "19.99"."""
    return sum(Decimal(price) * quantity for quantity, price in lines)


def tax(amount, rate):
    """The tax on an amount, rounded half up to a cent."""
    return (amount * Decimal(rate)).quantize(Decimal("0.01"))


def total(lines, rate):
    """What is to be paid, in cents."""
    amount = net(lines)
    return int((amount + tax(amount, rate)) * 100)
