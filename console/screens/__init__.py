"""One file per screen: what it composes and which intents it sends up."""
