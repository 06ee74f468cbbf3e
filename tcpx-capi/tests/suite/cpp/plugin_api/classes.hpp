// Declarations that the two files of one program share: the classes' names alone.
#pragma once

class TcpxSession;
class TcpxTransfer;
struct TcpxMemoryDescriptor;

// Made in the file that has exceptions, used in the one that has none.
bool describes(const TcpxMemoryDescriptor& descriptor);
bool completes(TcpxTransfer& transfer);
bool knows(TcpxSession& session, void* buffer);
