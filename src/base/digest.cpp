#include "base/digest.h"

#include <openssl/evp.h>

#include <cstring>
#include <random>

#include "base/check.h"

namespace millrace {

struct KeyedDigest::Context {
  ~Context() {
    EVP_MD_CTX_free(state);
    EVP_MD_free(algorithm);
  }

  EVP_MD* algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);  // once: fetching is slow
  EVP_MD_CTX* state = EVP_MD_CTX_new();
};

KeyedDigest::Key KeyedDigest::random_key() {
  std::random_device device;
  Key key;
  for (size_t i = 0; i < key.size(); i += sizeof(uint32_t)) {
    const uint32_t bits = device();
    std::memcpy(key.data() + i, &bits, sizeof(bits));
  }
  return key;
}

KeyedDigest::KeyedDigest(const Key& key) : key_(key), context_(std::make_unique<Context>()) {
  MR_CHECK(context_->algorithm != nullptr && context_->state != nullptr, "no SHA-256");
}

KeyedDigest::~KeyedDigest() = default;
KeyedDigest::KeyedDigest(KeyedDigest&&) noexcept = default;
KeyedDigest& KeyedDigest::operator=(KeyedDigest&&) noexcept = default;

Digest128 KeyedDigest::operator()(std::initializer_list<std::span<const std::byte>> parts) {
  EVP_MD_CTX* state = context_->state;
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes;
  bool is_done = EVP_DigestInit_ex2(state, context_->algorithm, nullptr) == 1 &&
                 EVP_DigestUpdate(state, key_.data(), key_.size()) == 1;
  for (const std::span<const std::byte> part : parts) {
    const uint64_t size = part.size();
    is_done = is_done && EVP_DigestUpdate(state, &size, sizeof(size)) == 1 &&
              EVP_DigestUpdate(state, part.data(), part.size()) == 1;
  }
  is_done = is_done && EVP_DigestFinal_ex(state, bytes.data(), nullptr) == 1;
  MR_CHECK(is_done, "SHA-256 failed");
  Digest128 digest;
  std::memcpy(&digest.low, bytes.data(), sizeof(digest.low));
  std::memcpy(&digest.high, bytes.data() + sizeof(digest.low), sizeof(digest.high));
  return digest;
}

}  // namespace millrace
