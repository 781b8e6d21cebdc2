"""Messages to people, in the form of each receiver: webhooks, chats, mail, commands, pings."""
