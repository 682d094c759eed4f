"""Payments without a payment service: cash, bank transfers, cheques. A person says that the money came."""
