#pragma once
// Reads GGUF versions 2 and 3, little endian, one file or a set of shards. Files are hostile input:
// every length is checked before use. Any thread.

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"
#include "formats/checkpoint.h"

namespace millrace {

// Maps the file, or all files of its set when the name is one of a set's
// ("name-00002-of-00003.gguf"): the checkpoint has the name and the metadata of the first. Errors
// name the file: kNotFound (a file or shards, listed), kIo, kCorrupt (with "truncated" in the
// message when bytes are missing at the end), kUnsupported (version, byte order, tensor type,
// pieces of a set that were joined with cat or cut by bytes).
Result<Checkpoint> open_gguf(const std::string& path);

// A whole single file in memory that outlives the result; bytes.data() is a multiple of 16.
Result<Checkpoint> parse_gguf(std::span<const std::byte> bytes, std::string name);

}  // namespace millrace
