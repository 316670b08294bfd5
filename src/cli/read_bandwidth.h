#pragma once
// The machine's limit that decoding is measured against.

namespace millrace {

// Bytes a second that n_threads read from memory together: the best of several passes over a buffer
// that no cache holds, four streams a thread. Takes about a second, on a slow machine no more than
// that and one pass. 0: the memory for it could not be had.
double measure_read_bandwidth(int n_threads);

}  // namespace millrace
