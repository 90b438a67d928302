"""Small questions to a service, to a training environment or to a server on the pod."""
