#pragma once
// Helpers of the tests of this module: files in memory and folders that vanish. One thread.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "formats/gguf_writer.h"

namespace millrace::testing_support {

// The whole file: tensors are filled with the bytes 0, 1, 2, ... of their own.
inline std::vector<std::byte> gguf_bytes(const GgufBuilder& builder) {
  std::vector<std::byte> file = builder.header();
  for (int64_t t = 0; t < builder.n_tensors(); ++t) {
    for (int64_t i = 0; i < builder.tensor_bytes(t); ++i) {
      file.push_back(static_cast<std::byte>(i & 0xff));
    }
    file.resize((file.size() + builder.alignment() - 1) / builder.alignment() *
                builder.alignment());
  }
  return file;
}

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = testing::TempDir() + "/millrace-XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string path(const std::string& name) const { return path_ + "/" + name; }
  std::string write(const std::string& name, std::span<const std::byte> bytes) const {
    std::ofstream file(path(name), std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    return path(name);
  }

 private:
  std::string path_;
};

}  // namespace millrace::testing_support
