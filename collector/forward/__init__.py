"""Accepted requests go on to next hops: queues, retries, senders over HTTP and gRPC, annotations."""
