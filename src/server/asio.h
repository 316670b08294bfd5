#pragma once
// The one way into Asio and Beast, private to http_server.cpp, http_connection.cpp and its
// refusals, http_message.cpp and asio_impl.cpp: what is no template is compiled once, in
// asio_impl.cpp. Seen without these definitions, Boost would be compiled a second time, inline, and
// its error categories would exist twice and differ.

#if defined(BOOST_ASIO_DETAIL_CONFIG_HPP) || defined(BOOST_BEAST_CORE_DETAIL_CONFIG_HPP)
#error "nothing of Asio or Beast may be included before server/asio.h"
#endif

#define BOOST_ASIO_SEPARATE_COMPILATION
#define BOOST_BEAST_SEPARATE_COMPILATION
#define BOOST_ASIO_NO_DEPRECATED
#if defined(__SANITIZE_THREAD__)
#define BOOST_ASIO_DISABLE_FENCED_BLOCK  // ThreadSanitizer does not understand fences
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BOOST_ASIO_DISABLE_FENCED_BLOCK
#endif
#endif

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

namespace millrace {

namespace asio = boost::asio;
using boost::asio::ip::tcp;
using SystemError = boost::system::error_code;

}  // namespace millrace
