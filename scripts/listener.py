"""A listener on loopback that writes down each connection: listener.py PORT_FILE ACCEPTED_FILE."""
import socket
import sys

with socket.socket() as server:
    server.bind(("127.0.0.1", 0))
    server.listen()
    with open(sys.argv[2], "a", buffering=1) as accepted:
        with open(sys.argv[1], "w") as port:
            port.write(str(server.getsockname()[1]))
        for _ in range(100):
            connection, address = server.accept()
            connection.close()
            accepted.write(f"{address[1]}\n")
