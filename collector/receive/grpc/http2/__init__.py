"""HTTP/2 as gRPC needs it: connections, their frames, headers, streams, pings and age."""
