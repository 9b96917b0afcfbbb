# The broker as an image: one static binary and its sample settings on an empty file system, not root.
# `make image` builds the binary first, so that the build needs no other image and no network.
FROM scratch
COPY build/image/ /
USER 1000:1000
VOLUME /data
EXPOSE 9092
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s CMD ["/kafka", "healthcheck", "localhost:9092"]
ENTRYPOINT ["/kafka", "server-start", "--env"]
CMD ["/config/container.properties"]
