# docker build -t excitor . && docker run --rm -v "$PWD:/campaigns" excitor demo my-demo
FROM python:3.11-slim
COPY . /src
RUN pip install --no-cache-dir /src && rm -rf /src \
    && useradd --create-home excitor && mkdir /campaigns && chown excitor /campaigns
USER excitor
# compiles the kernel into the image, so that the first command starts at once
RUN excitor robots tx40 > /dev/null
WORKDIR /campaigns
ENTRYPOINT ["excitor"]
CMD ["--help"]
