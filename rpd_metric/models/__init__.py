"""Models: chat servers, encoders, and how requests reach them, once each and none lost."""
