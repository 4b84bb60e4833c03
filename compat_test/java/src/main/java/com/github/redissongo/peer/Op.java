package com.github.redissongo.peer;

/** Does what a request asks for; what it returns becomes the result of the answer. */
@FunctionalInterface
interface Op {
    Object run(Request request) throws Exception;
}
