#include "sample/row_scan.h"

namespace millrace {

bool has_avx2() {
  return __builtin_cpu_supports("avx2") != 0;
}

const RowScan& fastest_row_scan() {
  return has_avx2() ? kRowScanAvx2 : kRowScanPortable;
}

}  // namespace millrace
