"""Standard Webhooks: the format of many senders, and of our own outbound webhooks."""
