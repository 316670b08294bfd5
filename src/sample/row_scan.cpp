#include "sample/row_scan.h"

namespace millrace {

const RowScan& row_scan(kernels::Isa isa) {
  return isa == kernels::Isa::kScalar ? kRowScanPortable : kRowScanAvx2;
}

}  // namespace millrace
