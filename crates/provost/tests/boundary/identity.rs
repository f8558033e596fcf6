//! Who is on the other side of a socket.
